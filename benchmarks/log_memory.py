"""One run of the broker's log in memory, by one tree: see P1 in `log.py`.

    python benchmarks/log_memory.py --tree DIR --what append --batches 100000

kprod is imported from the tree that is named, and nowhere else. The calls are those that the tree's
handlers make; they are the same in all trees since 250df23, and only one module's name differs.

    append   microseconds of CPU time to validate and append a batch of 1 KB
    fetch    microseconds of CPU time to read 64 KB from a random offset of that log
    start    milliseconds until a cluster of three brokers with six partitions is open, and closed

Thread-safety: one thread, but for the cluster's own.
"""

import argparse
import gc
import json
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from old_and_new_cases import use_tree

NOW_MS = 1_700_000_000_000
RECORDS = 8
VALUE_BYTES = 110
FETCH_BYTES = 64 << 10
WHAT = ("append", "fetch", "start")


def partition_of_new_state() -> Any:  # noqa: ANN401 - a Partition of another tree
    """Make a broker's state with one partition, without sockets."""
    try:
        from kprod.broker.cluster_state import ClusterState  # noqa: PLC0415 - of the chosen tree
    except ModuleNotFoundError:
        from kprod.broker.state import (  # type: ignore[import-not-found, no-redef]  # noqa: PLC0415
            ClusterState,
        )
    from kprod.broker.config import EmbeddedConfig  # noqa: PLC0415 - of the chosen tree
    from kprod.clock import SystemClock  # noqa: PLC0415 - of the chosen tree
    from kprod.model import Node  # noqa: PLC0415 - of the chosen tree

    state = ClusterState(EmbeddedConfig(), SystemClock(), [0])
    state.nodes[0] = Node(0, "127.0.0.1", 9_092)
    state.create_topic("orders", partition_count=1)
    return state.topics.partition("orders", 0)


def batches(count: int) -> list[memoryview]:
    """Make batches, a millisecond between two of them."""
    from kprod.model import Record  # noqa: PLC0415 - of the chosen tree
    from kprod.record.writer import write_batch  # noqa: PLC0415 - of the chosen tree

    value = random.Random(1).randbytes(VALUE_BYTES)
    made = []
    for number in range(count):
        records = [Record(it, NOW_MS + number, b"key", value, ()) for it in range(RECORDS)]
        made.append(memoryview(bytearray(write_batch(records))))
    return made


def append(partition: Any, encoded: list[memoryview]) -> float:  # noqa: ANN401 - as above
    """Append batches as the Produce handler does.

    Returns:
        CPU time in microseconds a batch.
    """
    from kprod.broker.log import validation  # noqa: PLC0415 - of the chosen tree

    its_names = ("validate_batch", "validated_batch")  # the new and the old one
    validate: Any = next(getattr(validation, it) for it in its_names if hasattr(validation, it))
    gc.collect()
    began = time.thread_time_ns()
    for it in encoded:
        batch = validate(it, partition.config, api_version=9, timestamp_ms=NOW_MS)
        partition.append(batch, it, NOW_MS, acks=-1)
    return (time.thread_time_ns() - began) / 1e3 / len(encoded)


def fetch(partition: Any, count: int) -> float:  # noqa: ANN401 - as above
    """Read from random offsets.

    Returns:
        CPU time in microseconds a read.
    """
    log, end = partition.log, partition.high_watermark
    source = random.Random(2)
    wanted = [source.randrange(end) for _ in range(count)]
    began = time.thread_time_ns()
    for offset in wanted:
        log.read(offset, limit_offset=end, max_bytes=FETCH_BYTES)
    return (time.thread_time_ns() - began) / 1e3 / count


def start(count: int) -> float:
    """Open and close clusters.

    Returns:
        Median in milliseconds.
    """
    from kprod.broker import EmbeddedCluster  # noqa: PLC0415 - of the chosen tree

    elapsed_ns = []
    for _ in range(count):
        began = time.perf_counter_ns()
        with EmbeddedCluster(3, {"orders": 6}):
            pass
        elapsed_ns.append(time.perf_counter_ns() - began)
    return statistics.median(elapsed_ns) / 1e6


def run(given: argparse.Namespace) -> float:
    """Run what the command line asks for, and return its figure."""
    use_tree(given.tree.resolve())
    if given.what == "start":
        return start(given.count)
    partition = partition_of_new_state()
    encoded = batches(given.count)
    appended_us = append(partition, encoded)
    return appended_us if given.what == "append" else fetch(partition, given.count)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="One run; prints its figure as JSON.")
    parser.add_argument("--tree", type=Path, required=True, help="whose kprod")
    parser.add_argument("--what", choices=WHAT, required=True)
    parser.add_argument("--count", type=int, default=100_000, help="batches, reads or clusters")
    json.dump(run(parser.parse_args()), sys.stdout)
