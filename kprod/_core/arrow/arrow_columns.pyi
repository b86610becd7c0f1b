class ColumnPlan:
    role: str
    name: str
    position: int
    multiplier: int
    divisor: int
