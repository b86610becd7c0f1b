"""Makes the map of a round: the newest offset of each key, by its hash.

Each map draws a secret key for its hashes: keys themselves are not compared, so nobody may be able
to choose two that collide. The size is Kafka's, 24 bytes a key, so that rounds end at the same
records.

Thread-safety: any thread.
Source: Kafka SkimpyOffsetMap (4.3), which hashes with MD5.
"""

import secrets

from kprod._core.record.offset_map import OffsetMap

_SECRET_BYTES = 16


def empty_map(buffer_bytes: int) -> OffsetMap:
    """Make a map without keys.

    Args:
        buffer_bytes: Memory that it may take; there is room for one key at least.

    Returns:
        The map; its memory is taken when the first key comes.
    """
    return OffsetMap(buffer_bytes, secrets.token_bytes(_SECRET_BYTES))
