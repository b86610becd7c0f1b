from collections.abc import Callable, Hashable

def register(
    *, lock_maker: Callable[[], object], ident_of_current: Callable[[], Hashable]
) -> None: ...
