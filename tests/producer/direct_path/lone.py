"""Lone records: sent alone, waited for by nobody, so that the caller's thread writes them.

Thread-safety: one thread.
"""

import contextlib
import threading
from collections.abc import Callable, Generator
from typing import Any

import kprod
from kprod.broker import EmbeddedCluster
from kprod.producer.batch_compression.parallel_compressor import ParallelCompressor
from kprod.producer.direct_path.direct_path import LONE_MIN
from kprod.threads import start_thread
from tests.producer.direct_path.sleeping import produce_requests, turns, until, until_it_sleeps

TOPIC = "orders"
_TRIES = 20  # a machine that stalls may make a record the sender's


def settle_request(producer: kprod.Producer, record_count: int = 1) -> None:
    """Send records at once, and see them settled without a wait.

    Args:
        producer: Any producer.
        record_count: Number of records.
    """
    values = [b"%d" % n for n in range(record_count)]
    receipt = producer.send_many(TOPIC, values, partitions=[0] * record_count)
    until(receipt.done)


def until_lone(producer: kprod.Producer) -> None:
    """Settle records one by one, since a question for metadata may have been in flight.

    Args:
        producer: Any producer.
    """
    while producer._kprod.sender.lone_count < LONE_MIN:
        settle_request(producer)


class LoneSends:
    """Sends lone records to partition 0, each with a value of its own.

    Args:
        producer: A producer with `linger_ms=0`.
        cluster: Its cluster.

    Attributes:
        taken_count: Number of records that their caller has written.
    """

    def __init__(self, producer: kprod.Producer, cluster: EmbeddedCluster) -> None:
        until_lone(producer)
        self.producer = producer
        self.cluster = cluster
        self.taken_count = 0
        self.sent: list[tuple[bytes, kprod.RecordFuture]] = []
        self._count = 0  # one whose `send` raises is not in `sent`

    def send(self, **arguments: Any) -> kprod.RecordFuture:
        """Send the next record, when the one before is settled and the sender sleeps.

        Args:
            **arguments: As for `Producer.send`.

        Returns:
            Its future.
        """
        if self.sent:
            until(self.sent[-1][1].done)
        until_lone(self.producer)
        until_it_sleeps(self.producer)
        return self.send_now(**arguments)

    def send_now(self, **arguments: Any) -> kprod.RecordFuture:
        """As `send`, but immediately."""
        value = b"lone-%d" % self._count
        self._count += 1
        before = produce_requests(self.producer), turns(self.producer)
        future = self.producer.send(TOPIC, value, partition=0, **arguments)
        # The sender has not woken, and still there is a request more.
        self.taken_count += (produce_requests(self.producer) - 1, turns(self.producer)) == before
        self.sent.append((value, future))
        return future

    @contextlib.contextmanager
    def one_in_flight(self, **arguments: Any) -> Generator[kprod.RecordFuture]:
        """Send a record from the caller's thread to a broker that hangs, until the end."""
        for _ in range(_TRIES):
            if self.sent:
                until(self.sent[-1][1].done)
            until_lone(self.producer)
            until_it_sleeps(self.producer)
            self.cluster.faults.stall(0)
            before = self.taken_count
            try:
                future = self.send_now(**arguments)
                if self.taken_count > before:
                    yield future
                    return
            finally:
                self.cluster.faults.resume(0)
        raise AssertionError("no lone record was written by its caller")

    def check(self, *, failed_count: int = 0) -> None:
        """All records are settled; delivered ones are in the log once, in order, at their offsets.

        Args:
            failed_count: Number of records that fail and are not in the log.
        """
        until(lambda: all(future.done() for _, future in self.sent))
        delivered = [(v, future) for v, future in self.sent if future.exception(0) is None]
        assert len(self.sent) - len(delivered) == failed_count
        values = [record.value for record in self.cluster.records(TOPIC)[0]]
        assert [value for value in values if (value or b"").startswith(b"lone-")] == [
            value for value, _ in delivered
        ]
        for value, future in delivered:
            assert values[future.result(0).offset] == value


def in_a_thread(call: Callable[[], object]) -> None:
    """Run a call in another thread, to its end.

    Args:
        call: May raise, which fails the test.
    """
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    if errors:
        raise errors[0]


def planted_compressor(compress: Callable[[Any], Any]) -> ParallelCompressor:
    """Make a compressor for a sender without a codec.

    Args:
        compress: The codec.

    Returns:
        One that compresses on the thread that sends.
    """
    return ParallelCompressor(lambda: compress, start_thread, thread_count=1)


class _HookedTransport:
    """A transport that runs code in the middle of its next write."""

    def __init__(self, wrapped: Any, before_write: Callable[[], object]) -> None:
        self._wrapped = wrapped
        self._before_write: Callable[[], object] | None = before_write

    def __getattr__(self, name: str) -> Any:
        """Whatever else the transport has."""
        return getattr(self._wrapped, name)

    def write_pieces(self, pieces: list[Any]) -> int:
        """See `Transport.write_pieces`."""
        call, self._before_write = self._before_write, None
        if call is not None:
            call()
        written: int = self._wrapped.write_pieces(pieces)
        return written


def hook_next_write(producer: kprod.Producer, call: Callable[[], object]) -> None:
    """Run code in the middle of the next write, which must be without TLS.

    Args:
        producer: Its sender sleeps, and one connection is open.
        call: Runs on the thread that writes.
    """
    client = producer._kprod.client
    (node_id,) = [n for n, c in client.connections.by_node_id.items() if c.channel and n >= 0]
    channel: Any = client.connections.by_node_id[node_id].channel
    channel.transport = _HookedTransport(channel.transport, call)
    channel._plain = None  # whose methods are called in C
