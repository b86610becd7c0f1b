"""Keys go to the partitions that other clients give them."""

import zlib

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod._core.send.key_hash import KeyHash, key_hash

COUNTS = st.integers(1, 10_000)


@given(st.binary(max_size=300), COUNTS)
def test_partitions_are_librdkafka_s(key: bytes, count: int) -> None:
    """Its own functions, as confluent-kafka shows them, are the oracle for all three hashes."""
    assert key_hash(KeyHash.MURMUR2, key) % count == confluent_kafka.murmur2(key, count)
    assert key_hash(KeyHash.CRC32, key) % count == confluent_kafka.consistent(key, count)
    assert key_hash(KeyHash.FNV1A, key) % count == confluent_kafka.fnv1a(key, count)


@given(st.binary(max_size=300))
def test_crc32_is_the_checksum_of_that_name(key: bytes) -> None:
    """Zlib computes it, too."""
    assert key_hash(KeyHash.CRC32, key) == zlib.crc32(key)


@pytest.mark.parametrize(
    ("key", "state"), [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)]
)
def test_fnv1a_loses_its_sign(key: bytes, state: int) -> None:
    """The draft's own vectors; as a signed number its absolute value is taken."""
    signed = state - (1 << 32) if state >> 31 else state
    assert key_hash(KeyHash.FNV1A, key) == abs(signed)
