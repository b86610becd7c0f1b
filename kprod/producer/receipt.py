"""The outcome of a bulk send: one receipt instead of a future for each record.

A receipt counts batches. It holds the positions of its records while their batch is in progress,
which is limited by the buffer size; then it keeps one range of offsets for each batch, adjacent
ranges joined, and the failures. So its size does not grow with the number of records.

Thread-safety: any thread; awaitable from any running asyncio loop.
Source: `concurrent.futures.Future` for the names.
"""

import os
from collections.abc import Callable, Generator
from contextvars import Context
from itertools import islice, starmap
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from kprod._core.aio.loop_mailbox import LoopSignal, running_loop
from kprod._core.clock import bounded_s
from kprod._core.outcome.self_wait import is_sender
from kprod._core.send.bulk_account import BulkAccount
from kprod.errors import KprodError, KprodTimeout, Persistence, ProducerForked, RecordsFailed
from kprod.guarded_log import guarded_logger
from kprod.wording import counted

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

__all__ = ["OffsetRange", "PartitionOffsets", "SendFailure", "SendReceipt"]

_logger = guarded_logger(__name__)
_MAYBE = Persistence.POSSIBLY_PERSISTED
_FOREVER_S = -1.0
_SHOWN_MAX = 3  # number of partitions in `repr`


class OffsetRange(NamedTuple):
    """A range of offsets, including the last one."""

    first: int
    last: int


class PartitionOffsets(NamedTuple):
    """The records of a bulk send that one partition accepted.

    Attributes:
        count: Number of records in the log.
        ranges: Their offsets, ascending in the order of sending. Records of other sends in the same
            batch are in the same range. Empty if the broker did not return offsets (acks=0).
    """

    count: int  # type: ignore[assignment]  # shadows a tuple's method, which nobody needs here
    ranges: tuple[OffsetRange, ...]


class SendFailure(NamedTuple):
    """A record that was not delivered.

    Attributes:
        index: Its index among the records of the call, from 0.
        error: The error; for a `KprodError`, `persistence` says whether it may be in the log
            nevertheless.
    """

    index: int  # type: ignore[assignment]  # as above
    error: Exception


class ReceiptAccount:
    """The account of a receipt's call, and the wait for it.

    Attributes:
        account: The call's account.
    """

    __slots__ = ("_made_in", "_topic", "account")

    def __init__(self, topic: str, account: BulkAccount) -> None:
        self._topic = topic
        self._made_in = os.getpid()
        self.account: BulkAccount = account

    def records_text(self) -> str:
        """Describe the number of records, for people."""
        return counted(self.account.record_count, "record")

    def wait_settled(self, timeout: float | None) -> None:
        """Wait until all records are settled; raises what `SendReceipt.exception` names."""
        if self.account.done:
            return
        self.reject_in_child()
        seconds = _FOREVER_S
        if timeout is not None:
            seconds = bounded_s(timeout)
        if seconds != 0 and is_sender():
            raise KprodError(
                f"a delivery callback asked for the outcome of a bulk send for {self._topic!r},"
                " which is not settled, and would wait for itself: ask done() first, or give the"
                " receipt a callback of its own"
            )
        settled_or_forked = self.account.wait(seconds)
        if not self.account.done:
            self.reject_in_child()  # a signal handler may have forked this process meanwhile
        if not settled_or_forked:
            raise KprodTimeout(
                f"not all of {self.records_text()} for {self._topic!r} settled within"
                f" {timeout} s; they continue until delivery_timeout_ms ends them"
            )

    def reject_in_child(self) -> None:
        """Raise an error in a forked child, where nothing is settled any more."""
        if os.getpid() != self._made_in:
            raise ProducerForked(
                f"this receipt was made in a parent of process {os.getpid()}, whose sender does not"
                " run here: wait for it in the parent"
            )


class SendReceipt:
    """The outcome of `send_many` or `send_arrow`: offsets by partition, and the failures.

    Thread-safety: any thread.
    """

    __slots__ = ("_kprod", "topic")

    def __init__(self, topic: str, account: BulkAccount) -> None:
        self.topic: str = topic
        self._kprod = ReceiptAccount(topic, account)

    @property
    def record_count(self) -> int:
        """Number of processed records, including rejected ones."""
        return self._kprod.account.record_count

    @property
    def failed_count(self) -> int:
        """Number of records that have failed so far."""
        return self._kprod.account.failed_count

    def done(self) -> bool:
        """Whether all records are settled."""
        return self._kprod.account.done

    def result(self, timeout: float | None = None) -> dict[int, PartitionOffsets]:
        """Wait until all records are settled. Waiting does not shorten linger.

        Args:
            timeout: Seconds; None waits without limit, but `delivery_timeout_ms` bounds it.

        Returns:
            Counts and ranges of offsets, by partition.

        Raises:
            RecordsFailed: A record was not delivered; `failures` lists all, and `delivered` the
                others.
            KprodError: The records are not settled, and this is a delivery callback, which would
                wait for itself.
            KprodTimeout: The records are not settled in time; they are still being sent.
            ProducerForked: This is a forked child, where nothing is settled any more.
            ValueError: The records are not settled, and the timeout is NaN.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self.delivered()

    def exception(self, timeout: float | None = None) -> KprodError | None:
        """Wait until all records are settled; returns the error that `result` would raise, or None.

        Args:
            timeout: Seconds; None waits without limit.

        Returns:
            The error; None if all records were delivered.

        Raises:
            KprodError: The records are not settled, and this is a delivery callback, which would
                wait for itself.
            KprodTimeout: The records are not settled in time; they are still being sent.
            ProducerForked: This is a forked child, where nothing is settled any more.
            ValueError: The records are not settled, and the timeout is NaN.
        """
        self._kprod.wait_settled(timeout)
        failed_count = self._kprod.account.failed_count
        if not failed_count:
            return None
        index, first = self._kprod.account.first_failure()
        error = RecordsFailed(
            f"{failed_count} of {self._kprod.records_text()} for {self.topic!r} failed;"
            f" the first, at index {index}: {type(first).__name__}: {first}. failures() names each,"
            " delivered() has the others"
        )
        error.failed_count = failed_count
        error.persistence = (
            _MAYBE
            if any(e.persistence is _MAYBE for e in self._kprod.account.batch_errors())
            else Persistence.NOT_PERSISTED
        )
        error.__cause__ = first
        return error

    def delivered(self) -> dict[int, PartitionOffsets]:
        """Return the offsets acknowledged so far, by partition; does not wait."""
        return {
            partition: PartitionOffsets(count, tuple(starmap(OffsetRange, ranges)))
            for partition, (count, ranges) in sorted(self._kprod.account.delivered().items())
        }

    def failures(self) -> list[SendFailure]:
        """Return the records that have failed so far, by index; does not wait."""
        return list(starmap(SendFailure, self._kprod.account.failures()))

    def add_done_callback(
        self, callback: Callable[["SendReceipt"], object], context: Context | None = None
    ) -> None:
        """Call `callback(receipt)` once all records are settled.

        Added in a running event loop, it is called by that loop, like a callback of an asyncio
        future. Otherwise it runs on the sender's thread (or immediately in this thread, if all
        records are settled), after the delivery callbacks of the last batch, with no lock held; its
        exceptions are logged.

        Args:
            callback: A function of the receipt.
            context: Context for the call; None, in a loop, uses a copy of the current one.
        """
        loop = running_loop()
        call: _ThreadCall | _LoopCall
        if loop is None:
            call = _ThreadCall(callback, self, context)
        else:
            call = _LoopCall(loop, callback)
            call.future.add_done_callback(lambda _: callback(self), context=context)
        if not self._kprod.account.add_done_call(call):
            call()

    def remove_done_callback(self, callback: Callable[["SendReceipt"], object]) -> int:
        """Remove a callback: in an event loop one added there, otherwise one without a loop.

        Args:
            callback: A callback equal to the added one.

        Returns:
            The number of times that it had been added and was not called yet.
        """
        loop = running_loop()
        found = [
            call
            for call in self._kprod.account.done_calls()
            if call.loop is loop and call.callback == callback
        ]
        return sum(self._kprod.account.remove_done_call(call) for call in found)

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 - as asyncio's futures have it
        """Do nothing and return False: only `purge` can withdraw accepted records."""
        return False

    def cancelled(self) -> bool:
        """Return False: records are never cancelled."""
        return False

    def __await__(self) -> Generator[Any, None, dict[int, PartitionOffsets]]:
        if not self.done():
            self._kprod.reject_in_child()
            call = _LoopCall(running_loop())
            if self._kprod.account.add_done_call(call):
                try:
                    yield from call.future.__await__()
                finally:
                    self._kprod.account.remove_done_call(call)
        return self.result(0)

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        # An error with a receipt may be pickled to another process; the receipt's records may not.
        return _left_behind, ()

    def __copy__(self) -> NoReturn:
        raise TypeError("a SendReceipt cannot be copied; its result() and failures() can")

    def __deepcopy__(self, _: object) -> NoReturn:
        self.__copy__()

    def __repr__(self) -> str:
        failed_count = self.failed_count
        state = "settled" if self.done() else "pending"
        parts = [f"{self._kprod.records_text()}, {state}, {failed_count} failed"]
        if failed_count:
            index, error = self._kprod.account.first_failure()
            parts.append(f"the first, at index {index}: {error!r}")
        delivered = self.delivered()
        for partition, (count, ranges) in islice(delivered.items(), _SHOWN_MAX):
            where = f"offsets {ranges[0].first} to {ranges[-1].last}" if ranges else "no offsets"
            parts.append(f"{self.topic}-{partition}: {count} delivered, {where}")
        if len(delivered) > _SHOWN_MAX:
            parts.append(f"and {len(delivered) - _SHOWN_MAX} more partitions")
        return f"<SendReceipt for {self.topic!r}: {'; '.join(parts)}>"


def _left_behind() -> None:
    """Return the result of unpickling a receipt."""


class _ThreadCall:
    """A callback that is called by the thread that settles the last record."""

    __slots__ = ("_context", "_receipt", "callback", "loop")

    def __init__(
        self,
        callback: Callable[[SendReceipt], object],
        receipt: SendReceipt,
        context: Context | None,
    ) -> None:
        self.callback = callback
        self.loop = None
        self._receipt = receipt
        self._context = context

    def __call__(self) -> None:
        try:
            if self._context is None:
                self.callback(self._receipt)
            else:
                self._context.run(self.callback, self._receipt)
        except BaseException:  # not even SystemExit may end the sender
            _logger.exception("A receipt's callback raised; nothing else stops for it")

    def close_after_fork(self) -> None:
        """Do nothing: in a forked child the parent's callbacks are not called."""


class _LoopCall:
    """Settles a future of an event loop.

    Attributes:
        callback: The callback of its future; None for a waiting task.
        loop: The running event loop.
        future: A future of the loop.
    """

    __slots__ = ("_signal", "callback", "future", "loop")

    def __init__(
        self,
        loop: "AbstractEventLoop | None",
        callback: Callable[[SendReceipt], object] | None = None,
    ) -> None:
        self._signal = LoopSignal()
        self.callback = callback
        self.loop = loop
        self.future = self._signal.future

    def __call__(self) -> None:
        self._signal.release()

    def close_after_fork(self) -> None:
        """Settle the future in a forked child, if its loop is here."""
        self._signal.close_after_fork()
