# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Lets one thread in at a time; a second one gets an error and waits for no lock.

Python runs signal handlers, and switches threads, between bytecodes, but not between every two: not
in compiled code, and not between a call's return to Python code and the next call. So a claim that
Python code made would have gaps, and a KeyboardInterrupt in a gap would leave it without an owner
for ever. There are two ways to use this one without a gap.

A `with` block is entered as soon as `__enter__` has returned. But a signal handler may raise when
`__exit__` has returned, so what the block returns may be lost. A call that must not lose its result
enters within `try` and frees the claim by an assignment, which is no call:

    call = object()
    try:
        claim.enter(call)
        result = ...
    except BaseException:
        if claim.holder is call:
            claim.holder = None
        raise
    claim.holder = None
    return result

Thread-safety: any thread.
Source: Kafka KafkaConsumer.acquireAndEnsureOpen (clients 4.3.1).
"""

cimport cython

from kprod._core cimport threads

from kprod.errors import ConcurrentPoll


@cython.final
cdef class ReaderClaim:
    """Held by the reading thread of a consumer.

    Args:
        check: Called with the thread's identity once it holds the claim; if it raises, the error
            is the call's.
        leave: Called after a `with` block has freed the claim.

    Attributes:
        holder: The call that holds the claim; None if there is none.
    """

    def __init__(self, check, leave):
        self._check = check
        self._leave = leave

    cpdef enter(self, call):
        """Claim for the calling thread.

        Args:
            call: Becomes the holder, even if `check` raises; an object of this call alone.

        Raises:
            ConcurrentPoll: Another thread is reading or iterating, or this one is inside a read.
        """
        ident = threads.current()
        other = None
        is_held = False
        with cython.critical_section(self):
            if self.holder is None:
                self.holder = call
                self._ident = ident
            else:
                is_held = True
                other = self._ident
        if is_held:
            who = "this thread already" if other == ident else f"thread {other}"
            raise ConcurrentPoll(
                f"this consumer is being read by {who}; one thread at a time may poll, iterate, or"
                " change the assignment"
            )
        self._check(ident)

    def __enter__(self) -> None:
        """Claim for the calling thread, until the end of the block; raises as `enter` does."""
        call = object()
        try:
            self.enter(call)
        except BaseException:
            if self.holder is call:
                self.holder = None
                self._leave()
            raise

    def __exit__(self, kind, error, frames) -> None:
        """Free the claim."""
        self.holder = None
        self._leave()
