# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Creates locks for compiled code, and identifies the current thread.

Both are the system's built-in functions, called as directly as if they were imported where they
are used, until `kprod.threads.use` registers others.

Thread-safety: any thread; `register` before and after everything else.
"""

from _thread import allocate_lock, get_ident

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
