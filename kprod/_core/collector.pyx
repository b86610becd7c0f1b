# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Keep objects out of the cyclic garbage collector, or pause it for microseconds.

The collector traverses every tracked object again and again: with ten thousand queued batches that
took a tenth of the sending threads' time. Where the owner of an object breaks every reference
cycle through it, the collector has nothing to find and need not traverse it.

Thread-safety: all functions need the GIL; only the thread that has just created an object may
    untrack it.
"""


# Number of pauses in effect, and whether the collector was enabled before the first of them.
cdef int _pauses = 0
cdef bint _ran = False


cpdef void pause() noexcept:
    """Disable the garbage collector until `resume`, which must follow within microseconds.

    On CPython 3.11 any allocation may start a collection, and with it the application's
    finalizers. Later versions start one only between bytecodes; there this does nothing.
    """
    global _pauses, _ran
    if PY_VERSION_HEX < COLLECTS_BETWEEN_BYTECODES:
        if _pauses == 0:
            _ran = PyGC_Disable()
        _pauses += 1


cpdef void resume() noexcept:
    """End one pause; the last one enables the collector again if it was enabled before."""
    global _pauses
    if _pauses > 0:
        _pauses -= 1
        if _pauses == 0 and _ran:
            PyGC_Enable()


cpdef void resume_in_child() noexcept:
    """Drop the pauses of threads that do not exist in a forked child, and resume."""
    global _pauses
    _pauses = min(_pauses, 1)
    resume()


cpdef void untrack(object tracked) noexcept:
    """Exempt an object from garbage collection; no effect on a type that is never tracked.

    Args:
        tracked: A fully built object; from now on only its reference count frees it.
    """
    if PyObject_IS_GC(tracked):
        PyObject_GC_UnTrack(<void*>tracked)
