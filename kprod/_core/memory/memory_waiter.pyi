class MemoryWaiter:
    chunk_count: int
    large: bool
    wanted_bytes: int
    granted_bytes: int
    settled: bool
    closed: bool
    def __init__(self, chunk_count: int, large: bool, chunk_bytes: int) -> None: ...
    def wait(self, timeout_s: float) -> bool: ...
