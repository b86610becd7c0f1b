from collections.abc import Callable, Hashable
from types import TracebackType
from typing import final

@final
class ReaderClaim:
    holder: object

    def __init__(
        self, check: Callable[[Hashable], object], leave: Callable[[], object]
    ) -> None: ...
    def enter(self, call: object) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None: ...
