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


def level() -> tuple[int, int, int]:
    """Descriptors, threads, and bytes of memory of this process, client and broker."""
    gc.collect()  # cycles that wait for it are no leak
    resident_pages = int(STATM.read_text("ascii").split()[1])
    return len(open_descriptors()), threading.active_count(), resident_pages * PAGE_BYTES


@pytest.mark.long
@pytest.mark.skipif(not STATM.exists(), reason="memory is read from /proc")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_nothing_stays(mechanism: str) -> None:
    """After the first 200: not a descriptor, not a thread, and less than 4 MiB."""
    wanted = BrokerSecurity(
        protocol="SASL_SSL", users={"alice": "alice-secret"}, mechanisms=MECHANISMS
    )
    with EmbeddedCluster(1, {"orders": 1}, security=wanted) as cluster:
        settings = cluster.client_settings(user="alice", mechanism=mechanism)
        levels = []
        for _ in range(CONNECTIONS // BLOCK):
            connect(settings, BLOCK)
            levels.append(level())
    (descriptors, threads, memory_bytes), *later = levels
    assert max(it[0] for it in later) <= descriptors
    assert max(it[1] for it in later) <= threads
    assert later[-1][2] - memory_bytes < MEMORY_BYTES_MAX, levels
