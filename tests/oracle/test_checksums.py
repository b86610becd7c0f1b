"""CRC-32C and murmur2 of the reference against published values."""

import pytest

from tests.oracle.crc32c import crc32c
from tests.oracle.murmur2 import murmur2

# Kafka's own UtilsTest, and one made with kafka-python.
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(
    ("content", "checksum"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_crc32c(content: bytes, checksum: int) -> None:
    """The check value, and the vectors of RFC 3720."""
    assert crc32c(content) == checksum


@pytest.mark.parametrize(("key", "expected"), MURMUR2.items())
def test_murmur2(key: bytes, expected: int) -> None:
    """Java's results, sign included."""
    assert murmur2(key) == expected
