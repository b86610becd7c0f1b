# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Which objects the cycle collector walks.

It walks all that live, again and again: ten thousand batches that wait cost a tenth of the time of
who sends them. Where every cycle through an object is cut in the end by who owns it, the collector
has nothing to find there, and need not look.

Thread-safety: under the interpreter lock, by who has just made the object.
"""


# How many have paused it, and whether it ran when the first of them did.
cdef int _pauses = 0
cdef bint _ran = False


cpdef void pause() noexcept:
    """Collect no garbage in this process until `resume`, which must follow within microseconds.

    On CPython 3.11 a collection may begin in any allocation, and with it the application's
    finalizers; later ones begin it between bytecodes only, and there this does nothing.
    """
    global _pauses, _ran
    if PY_VERSION_HEX < COLLECTS_BETWEEN_BYTECODES:
        if _pauses == 0:
            _ran = PyGC_Disable()
        _pauses += 1


cpdef void resume() noexcept:
    """Collect garbage again, if it was collected before and nobody else has paused it."""
    global _pauses
    if _pauses > 0:
        _pauses -= 1
        if _pauses == 0 and _ran:
            PyGC_Enable()


cpdef void resume_in_child() noexcept:
    """Forget the pauses of threads that a forked child does not have."""
    global _pauses
    _pauses = min(_pauses, 1)
    resume()


cpdef void untrack(object tracked) noexcept:
    """Let the collector pass over an object; one that it never walks is left as it is.

    Args:
        tracked: Whole, and not collected but by its reference count from now on.
    """
    if PyObject_IS_GC(tracked):
        PyObject_GC_UnTrack(<void*>tracked)
