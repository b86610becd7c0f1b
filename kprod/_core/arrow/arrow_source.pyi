from typing import Any

class ArrowSource:
    def __init__(self, table: Any) -> None: ...
