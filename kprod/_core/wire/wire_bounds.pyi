from collections.abc import Container, Iterable, Mapping
from typing import Self

class Bounds:
    @property
    def memory_bytes(self) -> int: ...
    @property
    def totals(self) -> dict[str, int]: ...
    @property
    def chosen(self) -> dict[str, tuple[str, Container[object]]]: ...
    @property
    def element_bytes(self) -> dict[str, int]: ...
    @property
    def unread(self) -> frozenset[str]: ...
    def __new__(
        cls,
        *,
        memory_bytes: int = 0,
        totals: Mapping[str, int] | None = None,
        chosen: Mapping[str, tuple[str, Container[object]]] | None = None,
        element_bytes: Mapping[str, int] | None = None,
        unread: Iterable[str] = (),
    ) -> Self: ...
