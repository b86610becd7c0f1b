from collections.abc import Callable, Hashable
from types import TracebackType
from typing import final

@final
class ReaderClaim:
    def __init__(self, check: Callable[[Hashable], object]) -> None: ...
    @property
    def is_free(self) -> bool: ...
    def drop(self) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None: ...
