"""Readers that mostly wait: one record at a time, idle partitions, an application that stalls.

Each function is one run in a process of its own, of kprod or confluent-kafka.

Thread-safety: one thread, the caller's.
"""

import gc
import statistics
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from read_sender import age_ns, requests_to, stamped

WARM_UP = 300  # records
WARM_UP_OF_BURST = 30  # another client had the cores
BUFFER_BYTES = 64 << 20  # kprod's default, and confluent-kafka's
RECORD_S = 10.0  # maximum wait for a record that is sent
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


def latency(wait: Wait, bursts: Iterable[int], sender: Path | None) -> Mapping[str, float]:
    """Have one record sent and read it, again and again.

    Args:
        wait: A wait that covers one partition.
        bursts: How many records to read in each burst, after some that are not counted.
        sender: The socket of `read_sender.sender`; without it this process sends, too.

    Returns:
        From just before the call of `send` to the record p50 and p99 in microseconds, and this
        process's CPU time a record.

    Raises:
        RuntimeError: A record has not come.
    """
    take, close = _taker(wait)
    taken_ns: list[int] = []
    cpu_s = 0.0
    with _requests(wait, sender) as request:

        def repeat(count: int) -> list[int]:
            taken = []
            for _ in range(count):
                request()
                value = take()
                if value is None:
                    raise RuntimeError(f"{wait.client} has not read the record that was sent")
                taken.append(age_ns(value))
            return taken

        repeat(WARM_UP)
        for count in bursts:
            repeat(WARM_UP_OF_BURST)
            cpu_began_s = time.process_time()
            taken_ns += repeat(count)
            cpu_s += time.process_time() - cpu_began_s
    close()
    hundredths = statistics.quantiles(taken_ns, n=100)
    return {
        "p50": hundredths[49] / 1_000,
        "p99": hundredths[98] / 1_000,
        "cpu": cpu_s * 1e6 / len(taken_ns),
    }


@contextmanager
def _requests(wait: Wait, sender: Path | None) -> Generator[Callable[[], object], None, None]:
    """Yield a function that has one record sent, in both cases by kprod's producer."""
    if sender is not None:
        with requests_to(sender, wait.topic) as request:
            yield request
    else:
        import kprod  # noqa: PLC0415 - its memory is not to be in the other runs

        with kprod.Producer(bootstrap_servers=wait.address, linger_ms=0) as producer:
            yield lambda: producer.send(wait.topic, stamped(), partition=0)


def _taker(wait: Wait) -> tuple[Callable[[], bytes | None], Callable[[], object]]:
    """Go to the end of a partition; returns how to wait for one record's value and to close."""
    client, address, topic = wait.client, wait.address, wait.topic
    module = _module(client)
    if client == "kprod":
        ours = module.Consumer(bootstrap_servers=address)
        ours.assign([(topic, 0)])
        ours.seek_to_end()
        ours.position((topic, 0))
        ours.poll(SETTLE_S)

        def take() -> bytes | None:
            records = ours.poll(RECORD_S)
            value: bytes | None = records[0].value if len(records) == 1 else None
            return value

        return take, ours.close
    theirs = module.Consumer(
        {"bootstrap.servers": address, "group.id": "race", "enable.auto.commit": False}
    )
    end = theirs.get_watermark_offsets(module.TopicPartition(topic, 0), RECORD_S)[1]
    theirs.assign([module.TopicPartition(topic, 0, end)])
    theirs.poll(SETTLE_S)

    def take_theirs() -> bytes | None:
        message = theirs.poll(RECORD_S)
        value: bytes | None = message and message.value()
        return value

    return take_theirs, theirs.close


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
