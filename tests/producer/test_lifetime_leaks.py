"""After `close` nothing remains, though the producer itself is still at hand."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from kprod.broker import EmbeddedCluster

TIMEOUT_S = 90  # ends a broken test, never its rhythm
LEFT_BYTES_MAX = 64 * 1024

# The broker is in the test's process: its memory and descriptors are not the producer's.
_SCRIPT = """
import gc, os, threading, tracemalloc
import kprod

def use(codec):
    producer = kprod.Producer(
        bootstrap_servers={servers!r}, batch_size=50_000, compression_type=codec
    )
    for number in range(5_000):
        producer.send("orders", b"x" * 200, partition=number % 16)
    assert producer.close(60) == 0
    return producer

def left():
    gc.collect()
    return tracemalloc.get_traced_memory()[0]

def descriptors():
    return len(os.listdir("/proc/self/fd"))

codecs = ("none", "gzip", "snappy", "lz4", "zstd")
tracemalloc.start()
for codec in codecs:
    use(codec)  # objects made once and kept: codecs, tables, the interpreter's own caches
threads, opened = threading.active_count(), descriptors()
for codec in codecs:
    before = left()
    producer = use(codec)
    print(
        left() - before,
        threading.active_count() - threads,
        descriptors() - opened,
        producer._kprod.pool.lent_bytes,
        producer._kprod.pool.cached_bytes,
        producer._kprod.timer.next_expiry_ms,
    )
    del producer
"""


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker, a topic of sixteen partitions."""
    with EmbeddedCluster(brokers=1, topics={"orders": 16}) as running:
        yield running


@pytest.mark.slow
def test_a_closed_producer_holds_nothing(cluster: EmbeddedCluster) -> None:
    """Threads and descriptors as before, no timer armed, at most 64 KiB by tracemalloc."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT.format(servers=cluster.bootstrap_servers)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert len(lines) == 5
    for held_bytes, rest in lines:
        assert int(held_bytes) <= LEFT_BYTES_MAX
        assert rest == "0 0 0 0 None"
