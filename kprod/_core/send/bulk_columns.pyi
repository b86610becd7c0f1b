from typing import Any, final

@final
class Column:
    role: str
    is_at_hand: bool
    def __init__(self, source: Any, role: str) -> None: ...
