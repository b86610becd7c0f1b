# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The end of a bulk send: all its batches are settled, then all their callbacks have run.

A call seals its completion after its last record. Threads wait for the first of these two events
with `wait`; functions registered with `add_done_call` are called at the second.

Invariants.
    A batch counts as opened with its first record: one that never takes any is never settled.
    done == sealed and settled == opened + split; once True, it stays True.
    The registered functions are called when, in addition, the callbacks of all batches have run.
    Each counter is written by one thread: opened by the sending one, the others by the thread that
    settles batches.

Thread-safety: any thread may wait; the lists change inside the completion's own critical section.
Source: Kafka ProduceRequestResult (clients 4.3.1), which many records wait for.
"""

cimport cython

from kprod._core.outcome.batch_result cimport BatchObserver, BatchResult
from kprod._core.threads cimport make_lock, wait_for


cdef class BulkCompletion:
    """Counts the batches of one bulk send until all are settled, and wakes all waiters.

    Attributes:
        done: Whether every record is settled and no more will come.
    """

    def seal(self) -> None:
        """Accept no more records; the account is done once all batches are settled."""
        self._sealed = True
        self._end_if_settled()
        self._report()

    cdef void count_settled(self, BatchObserver share, BatchResult result) noexcept:
        """Count one batch as settled, after the account has entered its outcome."""
        with cython.critical_section(self):
            self._settled_count += 1
        self._end_if_settled()

    cdef void _end_if_settled(self) noexcept:
        """Wake all waiters if every batch is now settled."""
        cdef list waiters
        with cython.critical_section(self):
            if (
                self.done or not self._sealed
                or self._settled_count < self.opened_count + self._split_count
            ):
                return
            self.done = True
            waiters = self._waiters
            self._waiters = None
        if waiters is not None:
            for lock in waiters:
                lock.release()

    cdef void count_finished(self) noexcept:
        """Record that the callbacks of one batch have run."""
        with cython.critical_section(self):
            self._finished_count += 1
        self._report()

    cdef void _report(self) noexcept:
        """Call the registered functions, once, if all callbacks have run."""
        cdef list calls
        with cython.critical_section(self):
            if (
                self._reported or not self.done
                or self._finished_count < self.opened_count + self._split_count
            ):
                return
            self._reported = True
            calls = self._calls
            self._calls = None
        if calls is not None:
            for call in calls:
                try:
                    call()
                except BaseException:
                    # The function reports its own errors; one must not keep the others from theirs.
                    pass

    def add_done_call(self, call) -> bool:
        """Call a function when all is done and all callbacks have run.

        Returns False if that was before; then it is not called.

        Args:
            call: A function without arguments; its exceptions are ignored. In a forked child its
                method `close_after_fork` is called instead, if it has one.
        """
        with cython.critical_section(self):
            if self._reported:
                return False
            if self._calls is None:
                self._calls = []
            self._calls.append(call)
        return True

    def done_calls(self) -> list:
        """Return the registered functions that have not been called yet."""
        with cython.critical_section(self):
            return [] if self._calls is None else list(self._calls)

    def remove_done_call(self, call) -> bool:
        """Remove a registered function; False if it has been called or was never registered.

        Args:
            call: The object that was passed to `add_done_call`; compared by identity.
        """
        cdef Py_ssize_t place
        with cython.critical_section(self):
            if self._calls is not None:
                for place in range(len(self._calls)):
                    if self._calls[place] is call:
                        del self._calls[place]
                        return True
        return False

    cdef void close_after_fork(self) noexcept:
        """Wake all waiters in a forked child.

        It enters no critical section: the thread that is in one may not exist here.
        """
        waiters, self._waiters = self._waiters, None
        for lock in waiters or ():
            lock.release()
        for call in self._calls or ():
            try:
                if hasattr(call, "close_after_fork"):
                    call.close_after_fork()
            except BaseException:
                # Raised by the application's event loop; it must not keep the other calls from
                # theirs.
                pass

    def wait(self, timeout_s: float) -> bool:
        """Wait until all records are done, or until this process is a forked child.

        Args:
            timeout_s: Seconds; -1 for no limit.

        Returns:
            False if the timeout expired.
        """
        lock = make_lock()
        lock.acquire()
        with cython.critical_section(self):
            if self.done:
                return True
            if self._waiters is None:
                self._waiters = []
            self._waiters.append(lock)
        try:
            # Only this call can be interrupted by a signal handler that raises.
            return wait_for(lock, timeout_s)
        finally:
            with cython.critical_section(self):
                waiters = self._waiters
                if waiters is not None and lock in waiters:
                    waiters.remove(lock)
