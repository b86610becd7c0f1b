"""32-bit MurmurHash2 with the seed and the sign that Kafka's partitioner has.

Source: Austin Appleby's description of MurmurHash2; Kafka's seed 0x9747b28c and signed result.
"""

SEED = 0x9747B28C
M = 0x5BD1E995
R = 24
MASK = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """Return the hash of `key` as Java has it: −2³¹ to 2³¹−1."""
    h = SEED ^ len(key)
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little")
        k = (k * M) & MASK
        k ^= k >> R
        k = (k * M) & MASK
        h = ((h * M) & MASK) ^ k
    tail = key[whole:]
    if tail:
        h ^= int.from_bytes(tail, "little")
        h = (h * M) & MASK
    h ^= h >> 13
    h = (h * M) & MASK
    h ^= h >> 15
    return h - 2**32 if h & 0x80000000 else h
