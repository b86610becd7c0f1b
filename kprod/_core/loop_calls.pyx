# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What other threads tell an event loop, in one call per turn of the loop however much there is.

Waking a loop from another thread costs a system call, and each call that it makes costs a handle.
So calls are laid down in a deque, and only the first since the loop last looked wakes it.

Invariant: while calls lie there, one turn of the loop that takes them is under way, unless the loop
was closed; then nobody is left to be told.

Thread-safety: `add` and `LoopSignal.wake` any thread; the rest the loop's.
"""

cimport cython

from asyncio import get_running_loop
from collections import deque
from threading import local
from weakref import ref

cdef object _here = local()


cdef class LoopCall:
    """One call; a subclass says of what."""

    cdef int arrive(self) except -1:
        """In the loop's thread; must not raise."""
        return 0


cdef class LoopCalls:
    """The calls for one event loop.

    Args:
        loop: Any event loop of asyncio's kind.
    """

    def __init__(self, loop):
        self.loop = loop
        self._calls = deque()
        self.by_result = {}

    cdef bint add(self, LoopCall call) except -1:
        """Let the loop make a call soon; False if it is closed, and never will."""
        cdef bint must_ring
        # Laid down first: whoever finds the bell rung knows that the loop has not looked yet.
        self._calls.append(call)
        with cython.critical_section(self):
            must_ring = not self._is_rung
            self._is_rung = True
        if must_ring:
            try:
                self.loop.call_soon_threadsafe(self._take)
            except RuntimeError:
                # The loop is closed. What waited in it will never run.
                self._is_rung = False
                self._calls.clear()
                return False
            except BaseException:
                # A signal handler interrupted it, who knows where. Rung twice does no harm.
                self._is_rung = False
                self.loop.call_soon_threadsafe(self._take)
                raise
        return True

    def _take(self):
        with cython.critical_section(self):
            self._is_rung = False
        while self._calls:
            (<LoopCall>self._calls.popleft()).arrive()


cdef LoopCalls calls_of_running_loop():
    """Those of the loop that runs in this thread; RuntimeError if none does."""
    cdef LoopCalls calls
    loop = get_running_loop()
    # Weak, so that a thread does not keep a loop that is over; whoever waits keeps the calls.
    found = getattr(_here, "calls", None)
    calls = None if found is None else found()
    if calls is None or calls.loop is not loop:
        calls = LoopCalls(loop)
        _here.calls = ref(calls)
    return calls


cdef class LoopSignal(LoopCall):
    """A future of the running loop that any thread may settle, once, with True.

    Attributes:
        future: Of the loop that ran where the signal was made.
    """

    def __init__(self):
        self._calls = calls_of_running_loop()
        self.future = self._calls.loop.create_future()

    cdef bint notify(self) except -1:
        """As `wake`; False if the loop is closed."""
        return self._calls.add(self)

    @property
    def is_heard(self):
        """Whether the loop runs now, and so will settle the future soon."""
        return self._calls.loop.is_running()

    def wake(self) -> None:
        """Settle the future soon, in its loop."""
        self.notify()

    cdef int arrive(self) except -1:
        if not self.future.done():
            self.future.set_result(True)
        return 0
