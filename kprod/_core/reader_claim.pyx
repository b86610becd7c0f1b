# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Lets one thread in at a time; a second one gets an error and waits for no lock.

Python runs signal handlers between bytecodes. So a claim that Python code makes and a `with` block
that Python code enters leave a gap between them, and a KeyboardInterrupt in that gap would leave
the claim without an owner for ever. Compiled code has no such gap: the interpreter enters the
block as soon as `__enter__` has returned.

Thread-safety: any thread.
Source: Kafka KafkaConsumer.acquireAndEnsureOpen (clients 4.3.1).
"""

cimport cython

from kprod._core cimport threads

from kprod.errors import ConcurrentPoll


@cython.final
cdef class ReaderClaim:
    """A context manager that the reading thread of a consumer holds.

    Args:
        check: Called with the thread's identity once it holds the claim; if it raises, the claim
            is dropped and the error is the block's.
    """

    def __init__(self, check):
        self._check = check

    @property
    def is_free(self) -> bool:
        """Whether no thread holds the claim."""
        return self._holder is None

    def drop(self) -> None:
        """Free the claim, for a forked child, which does not have the thread that holds it."""
        self._holder = None

    def __enter__(self) -> None:
        """Claim for the calling thread.

        Raises:
            ConcurrentPoll: Another thread is reading or iterating, or this one is inside a read.
        """
        ident = threads.current()
        other = None
        with cython.critical_section(self):
            other = self._holder
            if other is None:
                self._holder = ident
        if other is not None:
            who = "this thread already" if other == ident else f"thread {other}"
            raise ConcurrentPoll(
                f"this consumer is being read by {who}; one thread at a time may poll, iterate, or"
                " change the assignment"
            )
        try:
            self._check(ident)
        except BaseException:
            self._holder = None
            raise

    def __exit__(self, kind, error, frames) -> None:
        """Free the claim."""
        self._holder = None
