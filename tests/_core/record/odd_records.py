"""Logs of odd records in every format and codec, for readers that must agree."""

import random

from tests.oracle import message_set, record_v2

MS = 1_700_000_000_000
KEYS = ("", "a", "a", "trace", "ß")
# Around the lengths at which a varint grows.
SIZES = (0, 1, 2, 62, 63, 64, 65, 200, 8_191, 8_192)


def odd_log(rng: random.Random, batch_count_max: int = 12) -> bytes:
    """Batches and messages after one another, without gaps."""
    parts: list[bytes] = []
    offset = 0
    for _ in range(rng.randrange(1, batch_count_max)):
        count = rng.randrange(1, 40)
        if rng.random() < 0.3:
            old = [(offset + i, MS + i, odd_bytes(rng), odd_bytes(rng)) for i in range(count)]
            parts.append(message_set.encode(old, magic=rng.randrange(2), codec=rng.randrange(4)))
        else:
            rows = [odd_row(rng) for _ in range(count)]
            epoch = rng.randrange(-1, 5)
            codec = rng.randrange(5)
            parts.append(
                record_v2.encode_batch(
                    rows, base_offset=offset, codec=codec, partition_leader_epoch=epoch
                )
            )
        offset += count
    return b"".join(parts)


def odd_row(rng: random.Random) -> record_v2.RecordInput:
    """One record of V2."""
    headers: list[tuple[str, bytes | None]] = []
    if rng.random() < 0.5:
        headers = [(rng.choice(KEYS), odd_bytes(rng)) for _ in range(rng.randrange(1, 6))]
    return MS + rng.randrange(-9, 9), odd_bytes(rng), odd_bytes(rng), headers


def odd_bytes(rng: random.Random) -> bytes | None:
    """Null, empty, or something of a remarkable size."""
    return None if rng.random() < 0.1 else rng.randbytes(rng.choice(SIZES))
