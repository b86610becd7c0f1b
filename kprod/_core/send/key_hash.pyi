import enum

from typing_extensions import Buffer

class KeyHash(enum.IntEnum):
    MURMUR2 = 0
    CRC32 = 1
    FNV1A = 2

def key_hash(kind: int, key: Buffer) -> int: ...
