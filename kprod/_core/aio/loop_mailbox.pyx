# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""What other threads tell an event loop, in one call per turn of the loop however much there is.

Waking a loop from another thread costs a system call, and each call that it makes costs a handle.
So calls are put into a deque, and only the first since the loop last took them wakes it.

Invariant: while the deque holds calls, one call of `_take` is scheduled or runs, unless the loop
was closed; then no task is left that could be told.

Thread-safety: `add` and `LoopCall.release` any thread; the rest the loop's.
"""

cimport cython

from kprod._core.threads cimport current

from collections import deque
from sys import modules
from threading import local
from weakref import ref

cdef object _here = local()
cdef object _get_running_loop = None  # asyncio's, once somebody has imported asyncio


cdef class LoopCall:
    """Runs `arrive` in an event loop after any thread called `release`; subclasses say what."""

    cdef int arrive(self) except -1:
        """In the loop's thread; must not raise."""
        return 0

    def release(self) -> None:
        """Have the loop make the call soon; any thread. Named as a lock's method is."""
        self._mailbox.add(self)

    def close_after_fork(self) -> None:
        """Make the call in a forked child, if it is a copy of the loop's thread."""
        if self._mailbox.is_of_this_thread():
            self.arrive()


cdef class LoopMailbox:
    """The calls for one event loop; made in its thread.

    Args:
        loop: Any event loop of asyncio's kind.
    """

    def __init__(self, loop):
        self.loop = loop
        self._calls = deque()
        self.by_result = {}
        self._thread_ident = current()

    cdef bint add(self, LoopCall call) except -1:
        """Let the loop make a call soon; False if it is closed, and never will."""
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
                    # What waited in it will never run.
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
        """Whether the caller is on the loop's thread, or on a forked child's copy of it."""
        return self._thread_ident == current()

    def _take(self):
        with cython.critical_section(self):
            self._is_scheduled = False
        while self._calls:
            try:
                (<LoopCall>self._calls.popleft()).arrive()
            except Exception as raised:
                # The other calls are of other tasks, which would wait for ever.
                self.loop.call_exception_handler(
                    {"message": "kprod could not tell a loop of an outcome", "exception": raised}
                )


cpdef object running_loop():
    """Return the event loop that runs in this thread; None if none does."""
    global _get_running_loop
    if _get_running_loop is None:
        # Importing asyncio takes longer than importing a producer, and without it no loop runs.
        if "asyncio" not in modules:
            return None
        from asyncio import _get_running_loop as found
        _get_running_loop = found
    return _get_running_loop()


cdef LoopMailbox calls_of_running_loop():
    """Those of the loop that runs in this thread; RuntimeError if none does."""
    cdef LoopMailbox calls
    loop = running_loop()
    if loop is None:
        raise RuntimeError("no running event loop")
    # Weak, so that a thread does not keep a loop that is over; whoever waits keeps the calls. By
    # loop, since a thread may run several in turn, and takes back in each what it added there.
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
        future: Of the loop that ran where the signal was made.
    """

    def __init__(self):
        self._mailbox = calls_of_running_loop()
        self.future = self._mailbox.loop.create_future()

    cdef bint notify(self) except -1:
        """As `release`; False if the loop is closed."""
        return self._mailbox.add(self)

    @property
    def is_heard(self):
        """Whether the loop runs now, and so will settle the future soon."""
        return self._mailbox.loop.is_running()

    cdef int arrive(self) except -1:
        if not self.future.done():
            self.future.set_result(True)
        return 0
