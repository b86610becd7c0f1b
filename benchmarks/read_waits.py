"""Readers that mostly wait: one record at a time, idle partitions, an application that stalls.

Each function is one run in a process of its own, of kprod or confluent-kafka.

Thread-safety: one thread, the caller's.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

WARM_UP = 300  # records
WARM_UP_OF_BURST = 30  # another client had the cores
BUFFER_BYTES = 64 << 20  # kprod's default, and confluent-kafka's
VALUE = b"v" * 100
SETTLE_S = 2.0


class Wait(NamedTuple):
    """The broker and topic of a reader that waits.

    Attributes:
        client: Reads.
        address: `host:port`.
        topic: Exists.
        partitions: Number of partitions.
        seconds: Duration of the measurement.
    """

    client: str
    address: str
    topic: str
    partitions: int
    seconds: float


def latency(wait: Wait, bursts: Iterable[int]) -> Mapping[str, float]:
    """Send one record and read it, again and again; kprod's producer sends for both.

    Args:
        wait: A wait that covers one partition.
        bursts: How many records to send in each burst, after some that are not counted.

    Returns:
        p50 and p99 in microseconds, and the process's CPU time a record.

    Raises:
        RuntimeError: A record has not come.
    """
    import kprod  # noqa: PLC0415 - its memory is not to be in the other runs

    take = _taker(wait)
    taken_ns: list[int] = []
    cpu_s = 0.0
    with kprod.Producer(bootstrap_servers=wait.address, linger_ms=0) as producer:

        def repeat(count: int) -> list[int]:
            taken = []
            for _ in range(count):
                began_ns = time.perf_counter_ns()
                producer.send(wait.topic, VALUE, partition=0)
                if take() != 1:
                    raise RuntimeError(f"{wait.client} has not read the one record that was sent")
                taken.append(time.perf_counter_ns() - began_ns)
            return taken

        repeat(WARM_UP)
        for count in bursts:
            repeat(WARM_UP_OF_BURST)
            cpu_began_s = time.process_time()
            taken_ns += repeat(count)
            cpu_s += time.process_time() - cpu_began_s
    hundredths = statistics.quantiles(taken_ns, n=100)
    return {
        "p50": hundredths[49] / 1_000,
        "p99": hundredths[98] / 1_000,
        "cpu": cpu_s * 1e6 / len(taken_ns),
    }


def _taker(wait: Wait) -> Callable[[], int]:
    """Go to the end of a partition; returns a function that waits for one more record."""
    client, address, topic = wait.client, wait.address, wait.topic
    module = _module(client)
    if client == "kprod":
        ours = module.Consumer(bootstrap_servers=address)
        ours.assign([(topic, 0)])
        ours.seek_to_end()
        ours.position((topic, 0))
        ours.poll(SETTLE_S)
        return lambda: len(ours.poll(10.0))
    theirs = module.Consumer(
        {"bootstrap.servers": address, "group.id": "race", "enable.auto.commit": False}
    )
    end = theirs.get_watermark_offsets(module.TopicPartition(topic, 0), 10.0)[1]
    theirs.assign([module.TopicPartition(topic, 0, end)])
    theirs.poll(SETTLE_S)
    return lambda: int(theirs.poll(10.0) is not None)


def idle(wait: Wait) -> float:
    """Read partitions to which nothing comes.

    Args:
        wait: A wait that covers any number of partitions.

    Returns:
        CPU time of the process in percent of the time.
    """
    poll, close = _reader(wait)
    ends_s = time.perf_counter() + SETTLE_S + 3
    while time.perf_counter() < ends_s:
        poll(0.5)
    began_s, cpu_began_s = time.perf_counter(), time.process_time()
    while time.perf_counter() < began_s + wait.seconds:
        poll(wait.seconds)
    share = (time.process_time() - cpu_began_s) / (time.perf_counter() - began_s)
    close()
    return 100 * share


def stalled(wait: Wait) -> float:
    """Read one record of many partitions, then none, while there are more than memory may hold.

    Args:
        wait: A wait that covers any number of partitions.

    Returns:
        Memory that came with it, as a multiple of what may be buffered.
    """
    _module(wait.client)
    gc.collect()
    before = _resident_bytes()
    poll, close = _reader(wait)
    while not poll(1.0):
        pass
    most = 0
    ends_s = time.perf_counter() + wait.seconds
    while time.perf_counter() < ends_s:
        time.sleep(0.05)
        most = max(most, _resident_bytes())
    close()
    return (most - before) / BUFFER_BYTES


def _reader(wait: Wait) -> tuple[Callable[[float], object], Callable[[], object]]:
    """Read a topic from its beginning; returns how to poll one record and how to close."""
    client, address, topic, partitions, _ = wait
    module = _module(client)
    if client == "kprod":
        ours = module.Consumer(bootstrap_servers=address, auto_offset_reset="earliest")
        ours.assign([(topic, number) for number in range(partitions)])
        return lambda timeout: ours.poll(timeout, 1), ours.close
    theirs = module.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "race",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    theirs.assign([module.TopicPartition(topic, number, 0) for number in range(partitions)])
    return theirs.poll, theirs.close


def _module(client: str) -> Any:  # noqa: ANN401 - a client's
    if client == "kprod":
        import kprod  # noqa: PLC0415 - each child has one client only

        kprod.Consumer  # noqa: B018 - its code is loaded now, as the peer's is
        return kprod
    import confluent_kafka  # noqa: PLC0415 - as above

    return confluent_kafka


def _resident_bytes() -> int:
    status = Path("/proc/self/status").read_text("utf-8")
    line = next(each for each in status.splitlines() if each.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024
