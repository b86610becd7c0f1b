class JsonPlan:
    name: str
