"""Versions of the simulated members' requests, and the bytes of their subscriptions."""

import struct
from collections.abc import Mapping
from typing import Final

from kprod.protocol.api import ApiKey
from kprod.protocol.codec import structure_codec
from tests.sim.group_plan import SHARED

PROTOCOLS = ("range", "roundrobin")
LEVELS: Final[Mapping[str, Mapping[ApiKey, int]]] = {
    "low": {
        ApiKey.JOIN_GROUP: 2,
        ApiKey.SYNC_GROUP: 1,
        ApiKey.HEARTBEAT: 1,
        ApiKey.LEAVE_GROUP: 1,
        ApiKey.OFFSET_COMMIT: 3,
        ApiKey.OFFSET_FETCH: 3,
    },
    "middle": {
        ApiKey.JOIN_GROUP: 6,
        ApiKey.SYNC_GROUP: 4,
        ApiKey.HEARTBEAT: 3,
        ApiKey.LEAVE_GROUP: 3,
        ApiKey.OFFSET_COMMIT: 7,
        ApiKey.OFFSET_FETCH: 6,
    },
    "high": {
        ApiKey.JOIN_GROUP: 9,
        ApiKey.SYNC_GROUP: 5,
        ApiKey.HEARTBEAT: 4,
        ApiKey.LEAVE_GROUP: 5,
        ApiKey.OFFSET_COMMIT: 9,
        ApiKey.OFFSET_FETCH: 9,
    },
}
"""Versions of the requests of an old, a middle and a present client; static members are not old."""
_VERSION = struct.Struct(">h")


def subscription(flavour: int) -> bytes:
    """Encode a subscription; its user data is the flavour."""
    fields = {"topics": [SHARED], "user_data": b"%d" % flavour}
    return _VERSION.pack(0) + structure_codec("ConsumerProtocolSubscription", 0).encode(fields)


def assignment(partitions: list[int]) -> bytes:
    """Encode an assignment."""
    fields = {"assigned_partitions": [{"topic": SHARED, "partitions": partitions}]}
    return _VERSION.pack(0) + structure_codec("ConsumerProtocolAssignment", 0).encode(fields)


def partitions_of(encoded: bytes) -> list[int]:
    """Decode an assignment."""
    if not encoded:
        return []
    codec = structure_codec("ConsumerProtocolAssignment", 0)
    fields = codec.decode(bytes(encoded)[_VERSION.size :])
    return [index for it in fields["assigned_partitions"] for index in it["partitions"]]
