"""Faults of a broker between a record that its caller writes and its response."""

from collections.abc import Callable

from kprod.broker import EmbeddedCluster
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

FAULTS: dict[str, Callable[[EmbeddedCluster], object]] = {
    "a late response": lambda c: c.faults.delay(ApiKey.PRODUCE, 50),
    "a response lost": lambda c: c.faults.disconnect(ApiKey.PRODUCE, handled=True),
    "a request lost": lambda c: c.faults.disconnect(ApiKey.PRODUCE),
    "a response twice": lambda c: c.faults.duplicate(ApiKey.PRODUCE),
    "a response cut short": lambda c: c.faults.cut(ApiKey.PRODUCE, 9),
    "its partition left out": lambda c: c.faults.omit(ApiKey.PRODUCE),
    "its partition taken and left out": lambda c: c.faults.empty(ApiKey.PRODUCE, handled=True),
    "another leader": lambda c: c.faults.fail_next(
        ApiKey.PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER
    ),
}
