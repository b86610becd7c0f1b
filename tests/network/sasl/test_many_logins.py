"""Thousands of connections with TLS and a login, one after another: nothing of them stays."""

import gc
import threading
from pathlib import Path
from typing import Any

import pytest

from kprod import Producer
from kprod.broker import BrokerSecurity, EmbeddedCluster
from tests.plugins.leaks import open_descriptors

CONNECTIONS = 2_000
BLOCK = 200
EACH = 2
"""Of a producer: to the bootstrap address, and to the node."""

LOOKS_MAX = 200
MEMORY_BYTES_MAX = 4 << 20
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
STATM = Path("/proc/self/statm")
PAGE_BYTES = 4_096


def connect(settings: dict[str, Any], connections: int) -> None:
    """Log in, deliver a record, and close, so often."""
    for _ in range(connections // EACH):
        with Producer(settings) as producer:
            producer.send("orders", b"one").result(60)
            assert producer.metrics()["producer-metrics"]["connection-creation-total"] == EACH


def settled(descriptors_max: int) -> tuple[int, int, int]:
    """The level, once the broker has closed its side of the connections that the client closed."""
    for _ in range(LOOKS_MAX):
        found = level()
        if found[0] <= descriptors_max:
            break
        threading.Event().wait(0.05)
    return found


def level() -> tuple[int, int, int]:
    """Descriptors, threads, and bytes of memory of this process, client and broker."""
    gc.collect()  # cycles that wait for it are no leak
    resident_pages = int(STATM.read_text("ascii").split()[1])
    return len(open_descriptors()), threading.active_count(), resident_pages * PAGE_BYTES


@pytest.mark.long
@pytest.mark.skipif(not STATM.exists(), reason="memory is read from /proc")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_nothing_stays(mechanism: str) -> None:
    """Not a descriptor, not a thread, and less than 4 MiB after the first 200."""
    wanted = BrokerSecurity(
        protocol="SASL_SSL", users={"alice": "alice-secret"}, mechanisms=MECHANISMS
    )
    with EmbeddedCluster(1, {"orders": 1}, security=wanted) as cluster:
        settings = cluster.client_settings(user="alice", mechanism=mechanism)
        levels = []
        descriptors, threads, _ = level()
        for _ in range(CONNECTIONS // BLOCK):
            connect(settings, BLOCK)
            levels.append(settled(descriptors))
    assert max(it[0] for it in levels) <= descriptors
    assert max(it[1] for it in levels) <= threads
    assert levels[-1][2] - levels[0][2] < MEMORY_BYTES_MAX, levels
