# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""A version that grows with each metadata response, and the threads and tasks that wait for it.

There is no lock: the version is published before the waiters are woken, and a waiter looks at the
version after it has taken its place, so one of the two notices the other.

Thread-safety: any thread, but for `publish` and `fail_waiters`, which are the client's thread's.
Source: Metadata.awaitUpdate and ProducerMetadata.awaitUpdate (clients 4.3.1).
"""

from kprod._core.threads import wait_for
from kprod.cluster.metadata_waiters import SLICE_MS, MetadataWaiters, Waiter
from kprod.errors import ClosedError, KprodError, MetadataTimeout, own_copy
from kprod.threads import make_lock


class AwaitedVersion:
    """The number of processed responses, which threads can wait for."""

    def __init__(self) -> None:
        """Make a version 0 that nothing waits for."""
        self._waiters = MetadataWaiters()
        self._version = 0
        self._fatal_error: KprodError | None = None
        self._closed = False

    @property
    def version(self) -> int:
        """The number of processed responses."""
        return self._version

    def trouble(self, topic: str | None = None) -> str:
        """Explain in one line why there is no response, for error texts.

        Args:
            topic: The topic waited for, if one was.

        Returns:
            A short explanation.
        """
        raise NotImplementedError

    def wait_for_update(self, version: int, timeout_ms: int) -> int:
        """Block an application thread until there is a response newer than `version`.

        Args:
            version: The one that was not enough.
            timeout_ms: Longest wait, at least 0.

        Returns:
            The version that ended the wait.

        Raises:
            MetadataTimeout: No response in time.
            ClosedError: The client was closed.
            KprodError: The error passed to `fail_waiters`.
        """
        remaining_ms = timeout_ms
        waiter = make_lock()
        waiter.acquire()  # until the next response releases it
        try:
            if not self.add_waiter(waiter, version):
                return self._version
            while remaining_ms > 0 and not wait_for(waiter, min(remaining_ms, SLICE_MS) / 1_000):
                remaining_ms -= SLICE_MS
            if self.is_newer_than(version):
                return self._version
        finally:
            self.remove_waiter(waiter)
        raise MetadataTimeout(f"no metadata within {timeout_ms} ms: {self.trouble()}")

    def is_newer_than(self, version: int) -> bool:
        """Whether there is a response newer than `version`; raises as `wait_for_update` does."""
        if self._closed:
            raise ClosedError("the client was closed while metadata was awaited")
        fatal_error = self._fatal_error
        if fatal_error is not None:
            raise own_copy(fatal_error)  # each thread raises its own copy, with its own traceback
        return self._version > version

    def add_waiter(self, waiter: Waiter, version: int) -> bool:
        """Let the next response wake a waiter, which must call `remove_waiter` on every path.

        Args:
            waiter: Woken at most once.
            version: The version, as for `wait_for_update`, which raises the same errors.

        Returns:
            False if there is a newer one already: there is nothing to wait for.
        """
        self._waiters.add(waiter)
        # Looked at afterwards: a response that came before has not woken this waiter.
        return not self.is_newer_than(version)

    def remove_waiter(self, waiter: Waiter) -> None:
        """Give up a place; nothing happens if there is none."""
        self._waiters.remove(waiter)

    def close(self) -> None:
        """End every wait; later waits raise immediately."""
        self._closed = True
        self._waiters.wake_all()

    def publish(self) -> None:
        """Count a response, and end every wait."""
        self._fatal_error = None
        self._version += 1
        self._waiters.wake_all()

    def fail_waiters(self, error: KprodError) -> None:
        """End every wait with an error that is not retriable, such as rejected credentials.

        Args:
            error: Raised by present and later waits, until a response arrives.
        """
        self._fatal_error = error
        self._waiters.wake_all()
