# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""When a bulk send is over: all its batches are settled, then all their callbacks have run.

A call seals its completion after its last record. Threads wait for the first of these two moments,
`wait`; calls can be asked for at the second, `add_done_call`.

Invariants.
    A batch counts as opened with its first record: one that never takes any is never settled.
    done == sealed and settled == opened + split, and it never goes back.
    The calls that were asked for are made when, besides, the callbacks of all batches have run.
    Each counter is written by one thread: opened by the sending one, the others by the thread that
    settles batches.

Thread-safety: any thread may wait; the lists change inside the completion's own critical section.
Source: Kafka ProduceRequestResult (clients 4.3.1), which many records wait for.
"""

cimport cython

from kprod._core.outcome.batch_result cimport BatchObserver, BatchResult
from kprod._core.threads cimport make_lock


cdef class BulkCompletion:
    """Counts the batches of one bulk send until all are settled, and wakes all waiters.

    Attributes:
        done: Whether every record is settled and no more will come.
    """

    def seal(self) -> None:
        """Let no more records come; the account is done once all batches are settled."""
        self._sealed = True
        self._end_if_settled()
        self._report()

    cdef void count_settled(self, BatchObserver share, BatchResult result) noexcept:
        """Count one batch as settled; the account enters its outcome before."""
        with cython.critical_section(self):
            self._settled_count += 1
        self._end_if_settled()

    cdef void _end_if_settled(self) noexcept:
        """Wake who waits when this was the last thing to wait for."""
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
        """Note that the callbacks of one batch have run."""
        with cython.critical_section(self):
            self._finished_count += 1
        self._report()

    cdef void _report(self) noexcept:
        """Make the calls that were asked for, once, if every callback has run before them."""
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
                    # Told by its maker. It must not keep the others from being made.
                    pass

    def add_done_call(self, call) -> bool:
        """Make a call once all is done, and all callbacks have run; False if that was before.

        Args:
            call: Takes nothing; what it raises is dropped. In a forked child its method
                `close_after_fork`
                is called instead, if it has one.
        """
        with cython.critical_section(self):
            if self._reported:
                return False
            if self._calls is None:
                self._calls = []
            self._calls.append(call)
        return True

    def done_calls(self) -> list:
        """The calls that were asked for and are not made yet."""
        with cython.critical_section(self):
            return [] if self._calls is None else list(self._calls)

    def remove_done_call(self, call) -> bool:
        """Do not make a call that was asked for; False if it is made, or was not asked for.

        Args:
            call: The same object as was given to `add_done_call`.
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
        """Wake all that wait in a forked child; no lock is taken, as its holder may not be here."""
        waiters, self._waiters = self._waiters, None
        try:
            for lock in waiters or ():
                lock.release()
            for call in self._calls or ():
                if hasattr(call, "close_after_fork"):
                    call.close_after_fork()
        except BaseException:
            # The application's event loop; a thread of this process is woken before.
            pass

    def wait(self, timeout_s: float) -> bool:
        """Wait until all is done, or this is a forked child.

        Args:
            timeout_s: Seconds; negative waits as long as it takes.

        Returns:
            False when the time is over.
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
            return lock.acquire(True, timeout_s)
        finally:
            with cython.critical_section(self):
                waiters = self._waiters
                if waiters is not None and lock in waiters:
                    waiters.remove(lock)
