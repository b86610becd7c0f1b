from typing import final

@final
class LoneFetch:
    session_id: int
    topic: str | int | None
    partition: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: memoryview | None

    def __init__(self) -> None: ...

def read_lone_fetch(frame: bytes | bytearray, version: int) -> LoneFetch | None: ...
def lone_fetch_frame(
    opening: bytes, correlation_id: int, session: bytes, named: bytes, closing: bytes
) -> bytes: ...
def repeated_fetch_frame(
    frame: bytes,
    opening_bytes: int,
    correlation_id: int,
    session_epoch: int,
    offset: int,
    last_epoch: int,
) -> bytes: ...
def session_fields(
    bytes_max: int, reads_committed: bool, session_id: int, session_epoch: int
) -> bytes: ...
def partition_fields(
    partition: int, leader_epoch: int, offset: int, last_epoch: int, bytes_max: int
) -> bytes: ...
