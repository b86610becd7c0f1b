# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Application code that CPython's `ssl` may run in the middle of a read or a write.

Other compiled code runs signal handlers between bytecodes and where it calls `run_handlers`, and so
never in the middle of a step. But `ssl` calls `PyErr_CheckSignals` after each call of OpenSSL: on
the main thread that runs the handlers of signals that have arrived, and on CPython 3.12 it runs a
collection that is due, even while the collector is disabled. A caller that must not run application
code asks here first.

Ctrl-C's own handler only raises `KeyboardInterrupt`. It can be postponed: `interrupt_later` has it
raised again between the next bytecodes.

Thread-safety: any thread.
Source: CPython's `Modules/_ssl.c` and `PyErr_CheckSignals`, 3.11 to 3.13.
"""

import _signal
from _signal import default_int_handler, getsignal
import threading
from _thread import get_ident
from signal import valid_signals

cdef extern from "Python.h":
    const long PY_VERSION_HEX

# The functions of `_signal` are C; those of `signal` are Python around them.
cdef tuple _NUMBERS = tuple(int(number) for number in valid_signals())
cdef int _SIGINT = int(_signal.SIGINT)


def main_thread_ident():
    """Return the ident of the main thread; another's after a fork by another thread."""
    return threading.main_thread().ident


cpdef bint may_run_handlers(object main_ident) except -1:
    """Whether signals may run application code on this thread.

    O(number of signals): about a microsecond on the main thread.

    Args:
        main_ident: Ident of the main thread, the only one that runs handlers.

    Returns:
        False on any other thread, and if no handler in Python but Ctrl-C's own is installed.
    """
    cdef object number, handler
    if get_ident() != main_ident:
        return False
    for number in _NUMBERS:
        handler = getsignal(number)
        if handler is None or isinstance(handler, int):
            continue  # not Python's, ignored, or the system's default
        if handler is not default_int_handler or number != _SIGINT:
            return True
    return False


cpdef bint settle_collector() except -1:
    """Run a collection that is due now, so that none runs while the collector is disabled.

    Only CPython 3.12 needs it. Call it where application code may run, and with the collector
    disabled: finalizers run in here, and no further collection becomes due. An exception of a
    signal handler comes out of here, but Ctrl-C's own is raised again later.

    Returns:
        Whether application code may have run.
    """
    if 0x030C0000 <= PY_VERSION_HEX < 0x030D0000:
        try:
            PyErr_CheckSignals()
        except KeyboardInterrupt:
            PyErr_SetInterrupt()
        return True
    return False


cpdef void interrupt_later() noexcept:
    """Raise `KeyboardInterrupt` on the main thread again, between its next bytecodes."""
    PyErr_SetInterrupt()


cpdef object run_handlers():
    """Run the handlers of signals that have arrived, if this is the main thread.

    Compiled code calls it before a step that must not be followed by an exception, after which they
    would run in the caller, and before it waits, which would keep them from running until its end.
    Since CPython 3.12 a collection that is due runs, too.

    Raises:
        BaseException: A handler raised it.
    """
    PyErr_CheckSignals()
