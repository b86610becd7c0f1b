"""Compresses the batches of a request, and those that come next, several at once.

The codecs' libraries release the GIL, so that other threads can compress beside the sender where
the processor has cores for them. The sender compresses, too, and waits until the round is done:
nothing else of the producer ever sees a batch that another thread works at, and expiry, purge and
close come before or after a round.

A round has the batches of one request, and as many of the next ones as there are threads without
work. These are full, so that only their header changes until they are sent: neither their sequence
nor their order is decided here.

Memory beside `buffer_memory`: for each thread a copy of one batch, uncompressed, of which 4 MiB are
kept, and the compressed records until they are copied back into the batch.

Threads are started when they are first needed. Without enough of them the sender does their work.

Thread-safety: the sender's thread; `close_after_fork` a forked child.
"""

import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from kprod.compression import Buffer
from kprod.guarded_log import guarded_logger
from kprod.model import Codec
from kprod.producer.batch import ProducerBatch
from kprod.producer.batch_compression.batch_compressor import BatchCompressor
from kprod.producer.batch_compression.compression_thread import CompressionThread
from kprod.threads import Thread

SHARED_BYTES_MIN = 128 * 1024
"""Below it waking a thread, which takes tens of microseconds, does not pay with any codec."""
MakeCodec = Callable[[Codec, int | None], Callable[[Buffer], Buffer]]
"""Binds a codec and its level, as `kprod.compression.compressor` does."""

_THREADS_BY_DEFAULT_MAX = 4

_logger = guarded_logger(__name__)


class ParallelCompressor:
    """Compresses batches on the sender's thread and others.

    Attributes:
        own: The sender's own compressor.
    """

    __slots__ = (
        *("_make_codec", "_shared_bytes_min", "_start_thread", "_thread_count_max", "_threads"),
        "own",
    )

    def __init__(
        self,
        make_codec: Callable[[], Callable[[Buffer], Buffer]],
        start_thread: Callable[[str, Callable[[], object]], Thread],
        *,
        thread_count: int,
        shared_bytes_min: int = SHARED_BYTES_MIN,
    ) -> None:
        """Create it without other threads.

        Args:
            make_codec: Returns a function that compresses records, for one thread.
            start_thread: Starts a thread with a name, which counts as the sender for everything
                that would wait for the sender.
            thread_count: How many batches are compressed at once, at least 1.
            shared_bytes_min: Least size of batches that are compressed by several threads.
        """
        self._make_codec = make_codec
        self._shared_bytes_min = shared_bytes_min
        self._start_thread = start_thread
        self._thread_count_max = thread_count
        self._threads: list[CompressionThread] = []
        self.own = BatchCompressor(make_codec())

    def spare_threads(self, batch_count: int) -> int:
        """Return how many threads a round of this many batches leaves without work."""
        return max(self._thread_count_max - batch_count, 0)

    def pack(self, batches: Sequence[ProducerBatch]) -> dict[ProducerBatch, Exception]:
        """Compress batches.

        Args:
            batches: Batches with records, not packed, none of them twice.

        Returns:
            The error of each batch that could not be compressed, and that is as before.
        """
        errors: dict[ProducerBatch, Exception] = {}
        left = deque(batches)
        workers = self._workers(batches)
        work = partial(_pack_until_empty, left, errors)
        begun: list[CompressionThread] = []
        try:
            for worker in workers:
                worker.begin(work)
                begun.append(worker)
            work(self.own)
        finally:
            left.clear()
            for worker in begun:
                worker.wait()
        if begun:  # one may have ended before it had packed its batch
            work_left = (batch for batch in batches if batch.is_unpacked and batch not in errors)
            _pack_until_empty(deque(work_left), errors, self.own)
        return errors

    def close(self) -> None:
        """End the other threads, and keep no memory."""
        for thread in self._threads:
            thread.stop()
        self._threads.clear()
        self._thread_count_max = 1
        self.own = BatchCompressor(self._make_codec())

    def close_after_fork(self) -> None:
        """Let a thread that has forked end, in the child."""
        for thread in self._threads:
            thread.stop_soon()

    def _workers(self, batches: Sequence[ProducerBatch]) -> Sequence[CompressionThread]:
        """Return the other threads for a round; starts those that are missing."""
        count = min(len(batches), self._thread_count_max) - 1
        if count < 1 or sum(batch.builder.size_bytes for batch in batches) < self._shared_bytes_min:
            return ()
        self._threads = [thread for thread in self._threads if not thread.has_ended]
        while len(self._threads) < count:
            if not self._start_one():
                break
        return self._threads[:count]

    def _start_one(self) -> bool:
        """Start a thread; without one, try no more."""
        thread = CompressionThread(BatchCompressor(self._make_codec()))
        name = f"kprod-compression-{len(self._threads) + 1}"
        try:
            thread.start(partial(self._start_thread, name))
        except RuntimeError as error:  # no more threads, or an interpreter that is ending
            self._thread_count_max = len(self._threads) + 1
            _logger.info(
                "A thread for compression could not be started (%s); batches are compressed on %d",
                error,
                self._thread_count_max,
            )
            return False
        self._threads.append(thread)
        return True


def default_thread_count(codec: Codec) -> int:
    """Return how many batches to compress at once where no setting says so.

    Args:
        codec: Not none.

    Returns:
        With gzip the number of cores that the process may use, since compression takes ten times as
        long as all the rest; otherwise half of them, since the application's threads need the
        others. 1 to 4.
    """
    cores = _usable_cores()
    wanted = cores if codec is Codec.GZIP else cores // 2
    return min(max(wanted, 1), _THREADS_BY_DEFAULT_MAX)


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _pack_until_empty(
    left: "deque[ProducerBatch]",
    errors: dict[ProducerBatch, Exception],
    compressor: BatchCompressor,
) -> None:
    """Take batches until none is left, and compress each."""
    while True:
        try:
            batch = left.popleft()
        except IndexError:
            return
        try:
            compressor.pack(batch)
        except Exception as error:  # noqa: BLE001 - a codec's; the batch fails, others continue
            errors[batch] = error
