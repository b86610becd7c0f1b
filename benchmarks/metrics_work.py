"""The program that `metrics_cost.py` runs in callgrind: sends records by batches on one thread.

A module of its own, so that nothing but kprod is imported under the instrument.
"""

import os
import subprocess
from itertools import repeat

import kprod
from kprod.clock import SystemClock
from kprod.producer.producer import engine_of
from kprod.producer.wiring import Environment

VALUE = b"v" * 100
WARM_BATCHES = 3


def work(servers: str, *, has_metrics: bool, batches: int, records: int) -> None:
    """Send `batches` times `records` records, each time as one batch that is waited for.

    Args:
        servers: Address of a broker in another process, with the topic `bench` of one partition.
        has_metrics: Whether the producer counts.
        batches: Counted, after some to warm up.
        records: Number of records of 100 bytes in a batch.
    """
    clock = SystemClock()
    producer = kprod.Producer(
        bootstrap_servers=servers,
        linger_ms=0,
        max_block_ms=0,
        environment=Environment(is_threaded=False, has_metrics=has_metrics),
    )
    engine = engine_of(producer)
    while "bench" not in engine.path.topics:
        try:
            producer.send("bench", VALUE)
        except kprod.errors.KprodError:
            engine.run_once(clock.now_ms())
    _send(producer, clock, WARM_BATCHES, records)
    _instrument("on")
    _send(producer, clock, batches, records)
    _instrument("off")
    producer.close(0)


def _send(producer: kprod.Producer, clock: SystemClock, batches: int, records: int) -> None:
    engine = engine_of(producer)
    for _ in range(batches):
        for value in repeat(VALUE, records):
            future = producer.send("bench", value)
        while not future.done():
            engine.run_once(clock.now_ms())


def _instrument(state: str) -> None:
    subprocess.run(
        ["callgrind_control", f"--instr={state}", str(os.getpid())], capture_output=True, check=True
    )
