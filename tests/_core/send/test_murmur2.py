"""murmur2 gives Java's results."""

import pytest

from kprod._core.send.murmur2 import murmur2

# Source: Kafka UtilsTest.testMurmur2 (clients 4.3.1).
VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "expected"), VECTORS.items())
def test_vectors(key: bytes, expected: int) -> None:
    """Signed 32-bit, as Java prints it."""
    assert murmur2(key) == expected
