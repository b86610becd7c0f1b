# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Creates locks for compiled code, waits for them, and identifies the current thread.

The system's built-in functions make the locks and identify the threads, called as directly as if
they were imported where they are used, until `kprod.threads.use` registers others.

Thread-safety: any thread; `register` before and after everything else.
"""

from _thread import allocate_lock, get_ident

from kprod._core.signal_handlers cimport run_handlers

make_lock = allocate_lock
current = get_ident


def register(*, lock_maker, ident_of_current) -> None:
    """Set what makes locks and what tells threads apart.

    Args:
        lock_maker: Returns a lock that nobody holds.
        ident_of_current: Returns what no other thread that runs has.
    """
    global make_lock, current
    make_lock = lock_maker
    current = ident_of_current


cpdef object current_ident():
    """Return what no other thread that runs has, like `kprod.threads.current_ident`."""
    return current()


cpdef bint wait_for(object lock, double timeout_s) except -1:
    """Wait until another thread releases a lock, and hold it then.

    CPython runs signal handlers between bytecodes, and when a signal interrupts the wait. One that
    arrived in the compiled code before would wait as long as the caller: its handler runs first.

    Args:
        lock: A lock of `make_lock`, which is held.
        timeout_s: Seconds; -1 for no limit.

    Returns:
        False if the timeout expired.

    Raises:
        BaseException: A signal handler raised it.
    """
    run_handlers()
    return lock.acquire(True, timeout_s)
