# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Calls that other threads leave for an event loop, with one wakeup per iteration for all of them.

Waking a loop from another thread costs a system call, and each call that it makes costs a handle.
So calls are put into a deque, and only the first since the loop last emptied it wakes the loop.

Invariant: while the deque holds calls, one call of `_take` is scheduled or runs, unless the loop
was closed; a closed loop has no task left to wake.

Thread-safety: `add` and `LoopCall.release` from any thread; all else on the loop's thread.
"""

cimport cython

from kprod._core.threads cimport current

from collections import deque
import sys
from threading import local
from weakref import ref

cdef object _here = local()
cdef object _get_running_loop = None  # asyncio's, once somebody has imported asyncio


cdef class LoopCall:
    """A call of `arrive`, which subclasses implement, in an event loop; any thread requests it."""

    cdef int arrive(self) except -1:
        """Do the work of the call, in the loop's thread; must not raise."""
        return 0

    def release(self) -> None:
        """Have the loop make the call soon; any thread. Named like a lock's method."""
        self._mailbox.add(self)

    def close_after_fork(self) -> None:
        """In a forked child, make the call if this thread is a copy of the loop's thread."""
        if self._mailbox.is_of_this_thread():
            self.arrive()


cdef class LoopMailbox:
    """The pending calls of one event loop; created in the loop's thread.

    Args:
        loop: Any event loop of asyncio's kind.
    """

    def __init__(self, loop):
        self.loop = loop
        self._calls = deque()
        self.by_result = {}
        self._thread_ident = current()

    cdef bint add(self, LoopCall call) except -1:
        """Let the loop make a call soon; return False if it is closed and never will."""
        cdef bint must_schedule
        # Appended first: a thread that finds `_take` scheduled relies on it for its own call.
        self._calls.append(call)
        with cython.critical_section(self):
            must_schedule = not self._is_scheduled
            self._is_scheduled = True
        if must_schedule:
            try:
                self.loop.call_soon_threadsafe(self._take)
            except BaseException as raised:
                self._is_scheduled = False
                if self.loop.is_closed():
                    # The closed loop's tasks will never run.
                    self._calls.clear()
                    if isinstance(raised, RuntimeError):
                        return False
                    raise
                # A signal handler may have interrupted the call anywhere, and may raise anything,
                # RuntimeError too. Scheduling `_take` twice is harmless.
                self.loop.call_soon_threadsafe(self._take)
                raise
        return True

    cdef bint is_of_this_thread(self) except -1:
        """Return whether the caller is on the loop's thread, or a forked child's copy of it."""
        return self._thread_ident == current()

    def _take(self):
        with cython.critical_section(self):
            self._is_scheduled = False
        while self._calls:
            try:
                (<LoopCall>self._calls.popleft()).arrive()
            except Exception as raised:
                # The other calls belong to other tasks, which would wait forever.
                self.loop.call_exception_handler(
                    {"message": "kprod could not tell a loop of an outcome", "exception": raised}
                )


cpdef object running_loop():
    """Return the event loop that runs in this thread; None if none does."""
    global _get_running_loop
    if _get_running_loop is None:
        # Importing asyncio takes longer than importing a producer, and without it no loop runs.
        if "asyncio" not in sys.modules:
            return None
        from asyncio import _get_running_loop as found
        _get_running_loop = found
    return _get_running_loop()


cdef LoopMailbox calls_of_running_loop():
    """Return the mailbox of the loop that runs in this thread; RuntimeError if none does."""
    cdef LoopMailbox calls
    loop = running_loop()
    if loop is None:
        raise RuntimeError("no running event loop")
    # The thread has only weak references, or it would keep a finished loop alive; waiters have
    # strong ones. Each loop has its own mailbox, since a thread may run several loops in turn
    # and a mailbox may remove only the callbacks of its loop.
    known = getattr(_here, "calls", {})
    found = known.get(id(loop))
    calls = None if found is None else found()
    if calls is None or calls.loop is not loop:
        calls = LoopMailbox(loop)
        _here.calls = {key: other for key, other in known.items() if other() is not None}
        _here.calls[id(loop)] = ref(calls)
    return calls


cdef class LoopSignal(LoopCall):
    """A future of the running loop that any thread may settle, once, with True.

    Attributes:
        future: Future of the loop that ran when the signal was created.
    """

    def __init__(self):
        self._mailbox = calls_of_running_loop()
        self.future = self._mailbox.loop.create_future()

    cdef bint notify(self) except -1:
        """Release it, and return False if the loop is closed."""
        return self._mailbox.add(self)

    @property
    def is_heard(self):
        """Whether the loop is running, and so will settle the future soon."""
        return self._mailbox.loop.is_running()

    cdef int arrive(self) except -1:
        if not self.future.done():
            self.future.set_result(True)
        return 0
