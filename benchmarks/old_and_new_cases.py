"""One run of one case by one side, in a process of its own: see `old_and_new.py`.

    python benchmarks/old_and_new_cases.py --case futures --side kprod --tree DIR …

kprod is imported from the tree that is named, and nowhere else. Appending alone is measured by that
tree's own `benchmarks/append.py`, for it is made of parts that have no public name.

Thread-safety: one client a process, on the main thread.
"""

import argparse
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import race_clients
from race_clients import Load
from turns import Turns, confluent_turns, kprod_turns

APPEND, LONE, PARTITIONS = "append", "lone", "partitions"
PARTITION_COUNT = 10_000  # of the case `PARTITIONS`
PARTITIONS_MEMORY = 1 << 30
STREAMS: Mapping[str, Mapping[str, Callable[[Load], None]]] = {
    "futures": {"kprod": race_clients.kprod_futures, "peer": race_clients.confluent},
    "callbacks": {
        "kprod": race_clients.kprod_callbacks,
        "peer": race_clients.confluent_callbacks,
    },
}
CASES = (*STREAMS, LONE, PARTITIONS, APPEND)
SIDES = ("kprod", "peer")
LONE_WARM_UP = 200  # records: connection, topic, producer id, and the caches
APPENDED = 50_000  # records between two looks at the clock
PEER_QUEUE = 10_000_000
QUEUE_KBYTES = 2_000_000


def use_tree(tree: Path) -> None:
    """Let `import kprod` and `import append` find this tree's.

    Args:
        tree: Built for this interpreter.

    Raises:
        RuntimeError: Another kprod is imported all the same.
    """
    sys.path[:0] = [str(tree), str(tree / "benchmarks")]
    import kprod  # noqa: PLC0415 - from the path just given

    if not Path(kprod.__file__).is_relative_to(tree):
        raise RuntimeError(f"kprod is imported from {kprod.__file__}, not from {tree}")


def run_lone(load: Load, side: str) -> Mapping[str, float]:
    """Send each record when the one before is acknowledged, without linger.

    Args:
        load: Target and duration of the load.
        side: One of `SIDES`.

    Returns:
        Figures of a stream, and `p50_us` and `p99_us` of a record.
    """
    with _lone_sender(load, side) as send_one:
        for _ in range(LONE_WARM_UP):
            send_one()
        load.warm_up_count = LONE_WARM_UP
        taken_ns: list[int] = []
        load.begin()
        while load.goes_on(1):
            began_ns = time.perf_counter_ns()
            send_one()
            taken_ns.append(time.perf_counter_ns() - began_ns)
        load.end()
    hundredths = statistics.quantiles(taken_ns, n=100)
    return {**load.figures(), "p50_us": hundredths[49] / 1e3, "p99_us": hundredths[98] / 1e3}


def _lone_sender(load: Load, side: str) -> "_Kprod | _Peer":
    return _Kprod(load) if side == "kprod" else _Peer(load)


class _Kprod:
    """Sends a record and waits for its future."""

    def __init__(self, load: Load) -> None:
        import kprod  # noqa: PLC0415 - each process has one client only

        self._producer = kprod.Producer(bootstrap_servers=load.address, linger_ms=0)
        self._load = load

    def __enter__(self) -> Callable[[], object]:
        send, topic, value = self._producer.send, self._load.topic, self._load.value
        return lambda: send(topic, value, partition=0).result()

    def __exit__(self, *_: object) -> None:
        self._producer.close()


class _Peer:
    """Produces a message and polls until its report is there."""

    def __init__(self, load: Load) -> None:
        import confluent_kafka  # noqa: PLC0415 - as above

        settings = {"bootstrap.servers": load.address, "linger.ms": 0, "enable.idempotence": True}
        self._producer = confluent_kafka.Producer(settings)
        self._load = load

    def __enter__(self) -> Callable[[], object]:
        producer, topic, value = self._producer, self._load.topic, self._load.value
        reports: list[object] = []

        def report(error: object, _: object) -> None:
            reports.append(error)

        def send_one() -> None:
            reports.clear()
            producer.produce(topic, value, partition=0, on_delivery=report)
            while not reports:
                producer.poll(1)
            if reports != [None]:
                raise RuntimeError(reports)

        return send_one

    def __exit__(self, *_: object) -> None:
        self._producer.flush()


def run_append(seconds: float, value: bytes, side: str) -> Mapping[str, float]:
    """Hand records over and throw them away; the clock is the calling thread's CPU time.

    Args:
        seconds: Least CPU time of appending.
        value: The value of every record.
        side: One of `SIDES`.

    Returns:
        `count`, and `elapsed_s` and `cpu_s`, which are the same.
    """
    append, forget = _kprod_append(value) if side == "kprod" else _peer_append(value)
    append(APPENDED)
    forget()
    count, taken_ns = 0, 0
    while taken_ns < seconds * 1e9:
        began_ns = time.thread_time_ns()
        append(APPENDED)
        taken_ns += time.thread_time_ns() - began_ns
        count += APPENDED
        forget()
    return {"count": count, "elapsed_s": taken_ns / 1e9, "cpu_s": taken_ns / 1e9}


Append = tuple[Callable[[int], object], Callable[[], object]]


def _kprod_append(value: bytes) -> Append:
    import append  # noqa: PLC0415 - of the tree that is measured

    send = append.DiscardingPath().send
    return lambda count: _repeat(send, value, count), lambda: None


def _peer_append(value: bytes) -> Append:
    import confluent_kafka  # noqa: PLC0415 - each process has one client only

    producer = confluent_kafka.Producer(
        {
            "test.mock.num.brokers": 1,
            "queue.buffering.max.messages": PEER_QUEUE,
            "queue.buffering.max.kbytes": QUEUE_KBYTES,
            "log_level": 0,
            "delivery.report.only.error": True,
        }
    )
    producer.produce("bench", value)
    producer.flush(30)

    def forget() -> None:
        producer.purge()
        producer.poll(0)

    return lambda count: _repeat(producer.produce, value, count), forget


def _repeat(send: Callable[..., Any], value: bytes, count: int) -> None:
    for _ in itertools.repeat(None, count):
        send("bench", value)


def run(given: argparse.Namespace) -> Mapping[str, float]:
    """Run what the command line asks for.

    Args:
        given: Its options.

    Returns:
        `count`, `elapsed_s`, `cpu_s`; `offset` where a broker takes part; more for single records.
    """
    load = Load(given.broker, given.topic, given.seconds, 0)
    if given.side == "kprod":
        use_tree(given.tree.resolve())
    if given.case == APPEND:
        return run_append(given.seconds, load.value, given.side)
    if given.case == LONE:
        return run_lone(load, given.side)
    if given.case == PARTITIONS:
        turns = Turns(given.broker, given.topic, PARTITION_COUNT, PARTITIONS_MEMORY, given.seconds)
        return kprod_turns(turns) if given.side == "kprod" else confluent_turns(turns)
    STREAMS[given.case][given.side](load)
    return load.figures()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="One run; prints its figures as JSON.")
    parser.add_argument("--case", choices=CASES, required=True)
    parser.add_argument("--side", choices=SIDES, required=True)
    parser.add_argument("--tree", type=Path, help="whose kprod")
    parser.add_argument("--broker", default="", metavar="HOST:PORT")
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--seconds", type=float, required=True)
    return parser


if __name__ == "__main__":
    print(json.dumps(run(_parser().parse_args())))
