"""Measures a record's cost in `send_many` and `send_arrow`, compared with a loop over `send`.

The sender is replaced by a drain that discards, as in `benchmarks/append.py`; batches are settled
when they are discarded, so that receipts do all they do for a real one. The figure is CPU time of
the calling thread.

100-byte values without compression: from a list and from a generator, from an Arrow array, and
scattered by keys of 16 bytes over six partitions.

Thread-safety: one thread, the caller's.
"""

import functools
import gc
import itertools
import time
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
from append import VALUE, DiscardingPath
from report import Contestant, Report, main
from report_values import Metric

from kprod.producer import bulk

RECORDS = 1_000_000  # a round
RECORDS_QUICK = 200_000
KEY_COUNT = 10_000


def _cost_ns(work: Callable[[DiscardingPath], object], count: int) -> Callable[[], float]:
    def measure() -> float:
        path = DiscardingPath()
        gc.collect()  # garbage of the contestant before is not ours to pay for
        started_ns = time.thread_time_ns()
        work(path)
        return (time.thread_time_ns() - started_ns) / count

    return measure


def _loop(values: list[bytes], keys: list[bytes] | None, path: DiscardingPath) -> None:
    send = path.send
    if keys is None:
        for value in values:
            send("bench", value)
    else:
        for value, key in zip(values, keys, strict=True):
            send("bench", value, key)


def _beside(keys: Iterable[bytes] | None) -> dict[str, Iterable[Any] | None]:
    return {"keys": keys, "headers": None, "partitions": None, "timestamps_ms": None}


def _list(values: list[bytes], keys: list[bytes] | None, path: DiscardingPath) -> None:
    bulk.send_many(path, "bench", values, _beside(keys), on_delivery=None)


def _generator(values: list[bytes], keys: list[bytes] | None, path: DiscardingPath) -> None:
    more = None if keys is None else (key for key in keys)
    given = (value for value in values)
    bulk.send_many(path, "bench", given, _beside(more), on_delivery=None)


def _arrow(table: pa.RecordBatch, key: str | None, path: DiscardingPath) -> None:
    names = {"value": "value", "key": key, "headers": None, "partition": None, "timestamp": None}
    bulk.send_arrow(path, "bench", table, names)


def benchmark(report: Report) -> None:
    """Compare without and with keys."""
    count = report.pick(RECORDS, RECORDS_QUICK)
    values = [VALUE] * count
    keys = [b"key %012d" % number for number in range(KEY_COUNT)]
    scattered = list(itertools.islice(itertools.cycle(keys), count))
    batch = pa.RecordBatch.from_pydict({"value": values, "key": scattered})
    for name, given in (("no key", None), ("key of 16 bytes", scattered)):
        rows = {
            "a loop over send": functools.partial(_loop, values, given),
            "send_many, a list": functools.partial(_list, values, given),
            "send_many, a generator": functools.partial(_generator, values, given),
            "send_arrow": functools.partial(_arrow, batch, None if given is None else "key"),
        }
        contestants = [Contestant(label, _cost_ns(work, count)) for label, work in rows.items()]
        metric = Metric(f"one record, {name}", "ns")
        report.compare(contestants, metric=metric, baseline="a loop over send", rounds=5)


if __name__ == "__main__":
    main("One record of 100 bytes in a bulk send, the sender replaced by a drain", benchmark)
