from collections.abc import Iterable
from typing import final

@final
class AbortedTransactions:
    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None: ...
