from collections.abc import Sequence

def produce_pieces(
    opening: bytes,
    correlation_id: int,
    topics: Sequence[
        tuple[bytes, Sequence[tuple[int, Sequence[bytes | bytearray | memoryview], int]]]
    ],
    flexible: bool,
) -> list[bytes | bytearray | memoryview]: ...
