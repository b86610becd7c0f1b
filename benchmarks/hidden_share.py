"""Measures how much of the sender's work runs in parallel with the caller's.

Caller and sender of one producer are timed alone and together, on the same records:

* *caller alone*: the producer has no sender thread, so records are encoded into batches and nothing
  else happens; when the memory is full, everything is purged, off the clock;
* *sender alone*: batches that were filled before, off the clock, are compressed, sent and settled
  by the sender's own turns on the only thread;
* *together*: an ordinary producer, from the first `send` until all is acknowledged.

Hidden share = (caller alone + sender alone − together) ÷ the shorter of the two, per record: 1
means that the longer one alone decides, 0 that they take turns. It can be below 0, since taking
turns costs time.

With a codec it also times *codec alone*: a full batch of the same records is compressed over and
over, and nothing else happens. Its time ÷ together is the share of the codec's own speed.

Thread-safety: one producer a process, on the main thread.
"""

import time
from collections.abc import Mapping

from race_clients import BATCH_BYTES
from real_work_clients import run_kprod
from real_work_shapes import Shape

import kprod
from kprod._core.clock import SystemClock
from kprod.compression import compressor
from kprod.errors import BufferTimeout, KprodError
from kprod.model import Codec, Record
from kprod.producer.producer import engine_of
from kprod.producer.wiring import Environment
from kprod.record.writer import write_batch

MEMORY_BYTES = 128 << 20
BLOCK = 10_000
HEADER_BYTES = 61
RECORD_OVERHEAD_BYTES = 12  # at most, with a timestamp and an offset near the batch's first


def measure_shares(address: str, topic: str, shape: Shape, seconds: float) -> Mapping[str, float]:
    """Measure the three times of one shape, one after the other.

    Args:
        address: `host:port` of a broker in another process.
        topic: Exists.
        shape: The records to send.
        seconds: Least time of each of the three.

    Returns:
        Nanoseconds per record: `caller_ns`, `sender_ns`, `together_ns`, `codec_ns` (0 without a
        codec); and `hidden_share`.
    """
    caller_ns = _caller_alone_ns(address, topic, shape, seconds)
    sender_ns = _sender_alone_ns(address, topic, shape, seconds)
    together = run_kprod(address, topic, shape, seconds)
    together_ns = together["elapsed_s"] * 1e9 / together["count"]
    return {
        "caller_ns": caller_ns,
        "sender_ns": sender_ns,
        "together_ns": together_ns,
        "codec_ns": codec_alone_ns(shape, seconds) if shape.codec != "none" else 0.0,
        "hidden_share": (caller_ns + sender_ns - together_ns) / min(caller_ns, sender_ns),
    }


def codec_alone_ns(shape: Shape, seconds: float) -> float:
    """Compress a full batch of a shape's records, again and again.

    Args:
        shape: The records; it has a codec.
        seconds: Least time.

    Returns:
        Nanoseconds per record.
    """
    key_bytes = len(shape.records(1)[0][0] or b"")
    count = BATCH_BYTES // (shape.value_bytes + key_bytes + RECORD_OVERHEAD_BYTES)
    records = [Record(at, 0, key, value) for at, (key, value) in enumerate(shape.records(count))]
    payload = write_batch(records)[HEADER_BYTES:]
    compress = compressor(Codec[shape.codec.upper()])
    batches, started = 0, time.perf_counter()
    while batches == 0 or time.perf_counter() - started < seconds:
        compress(payload)
        batches += 1
    return (time.perf_counter() - started) * 1e9 / (batches * count)


class _Threadless:
    """A producer without a sender thread, whose topic is open."""

    def __init__(self, address: str, topic: str, shape: Shape) -> None:
        self.topic = topic
        self.records = shape.records(BLOCK)
        self._clock = SystemClock()
        self.producer = kprod.Producer(
            bootstrap_servers=address,
            buffer_memory=MEMORY_BYTES,
            max_block_ms=0,
            environment=Environment(is_threaded=False),
            compression_type=shape.codec,
        )
        self._engine = engine_of(self.producer)
        while topic not in self._engine.path.topics:
            try:
                self.producer.send(topic, b"warm")
            except KprodError:
                self.take_turn()
        self.drain()

    def take_turn(self) -> None:
        """Run one turn of the sender."""
        self._engine.run_once(self._clock.now_ms())

    def fill(self) -> int:
        """Send until memory is full; return how many records were accepted."""
        send, topic, count = self.producer.send, self.topic, 0
        try:
            while True:
                for key, value in self.records:
                    send(topic, value, key=key)
                    count += 1
        except BufferTimeout:
            return count

    def drain(self) -> None:
        """Run turns until every record is settled."""
        self._engine.flush_soon()
        while self._engine.accumulator.incomplete():
            self.take_turn()

    def purge(self) -> None:
        """Drop every record; their futures fail."""
        self.producer.purge()
        self.take_turn()


def _caller_alone_ns(address: str, topic: str, shape: Shape, seconds: float) -> float:
    threadless = _Threadless(address, topic, shape)
    threadless.fill()  # touches the memory for the first time
    threadless.purge()
    count, spent_s = 0, 0.0
    while spent_s < seconds:
        started = time.perf_counter()
        count += threadless.fill()
        spent_s += time.perf_counter() - started
        threadless.purge()
    threadless.producer.close(0)
    return spent_s * 1e9 / count


def _sender_alone_ns(address: str, topic: str, shape: Shape, seconds: float) -> float:
    threadless = _Threadless(address, topic, shape)
    count, spent_s = 0, 0.0
    while spent_s < seconds:
        count += threadless.fill()
        started = time.perf_counter()
        threadless.drain()
        spent_s += time.perf_counter() - started
    threadless.producer.close(0)
    return spent_s * 1e9 / count
