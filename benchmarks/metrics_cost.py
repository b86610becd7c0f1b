"""Measures the cost of metrics: instructions per record with and without, by callgrind.

The workload (`metrics_work.py`) is one thread that sends batch after batch over TCP to an embedded
broker in this process, which is not under the instrument. Instructions, unlike time, do not depend
on what else the machine does; that the sender takes a turn more or less does, so rounds differ a
little.

The points of the curve are records in a batch: one is the worst case, where a batch's whole cost is
that record's; 9,000 are a full batch of 1 MB.

Thread-safety: one thread, and the broker's.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from report import Contestant, Report, main
from report_values import Metric

from kprod.broker import EmbeddedCluster

ROOT = Path(__file__).resolve().parent.parent
RECORDS = (1, 100, 9_000)  # in a batch
BATCHES = 200
BATCHES_QUICK = 40
RECORDS_MAX = 100_000  # counted, of a point: larger batches are fewer
TIMEOUT_S = 100

_CALLGRIND = (
    "valgrind",
    "--tool=callgrind",
    "--instr-atstart=no",
    "--callgrind-out-file=/dev/null",
)
_COLLECTED = re.compile(r"Collected : (\d+)")


def instructions(servers: str, *, has_metrics: bool, batches: int, records: int) -> float:
    """Count one run.

    Args:
        servers: Address of the broker.
        has_metrics: Whether the producer counts.
        batches: Counted, after some to warm up.
        records: In a batch.

    Returns:
        Instructions per record.

    Raises:
        RuntimeError: The run failed.
    """
    call = (
        f"import metrics_work; metrics_work.work({servers!r}, has_metrics={has_metrics},"
        f" batches={batches}, records={records})"
    )
    done = subprocess.run(
        [*_CALLGRIND, sys.executable, "-c", call],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'benchmarks'}:{ROOT}", "PYTHONHASHSEED": "0"},
    )
    found = _COLLECTED.search(done.stderr)
    if done.returncode or found is None:
        raise RuntimeError(f"callgrind: {done.stderr[-2_000:]}")
    return int(found[1]) / (batches * records)


def benchmark(report: Report) -> None:
    """Compare counting with not counting at each size of batch."""
    if shutil.which("valgrind") is None:
        print("valgrind is not here: nothing is measured")
        return
    metric = Metric(
        "cost of a send", "instructions/record", more_is_better=False, against="records in a batch"
    )
    most = report.pick(BATCHES, BATCHES_QUICK)
    with EmbeddedCluster(brokers=1, topics={"bench": 1}) as cluster:
        for records in RECORDS:
            run = functools.partial(
                instructions,
                cluster.bootstrap_servers,
                batches=max(min(most, RECORDS_MAX // records), 5),
                records=records,
            )
            report.compare(
                [
                    Contestant("with metrics", _measure(run, has_metrics=True)),
                    Contestant("without", _measure(run, has_metrics=False)),
                ],
                metric=metric,
                baseline="without",
                at=records,
            )


def _measure(run: Callable[..., float], *, has_metrics: bool) -> Callable[[], float]:
    return functools.partial(run, has_metrics=has_metrics)


if __name__ == "__main__":
    main("Cost of metrics", benchmark)
