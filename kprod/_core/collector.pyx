# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Which objects the cycle collector walks.

It walks all that live, again and again: ten thousand batches that wait cost a tenth of the time of
who sends them. Where every cycle through an object is cut in the end by who owns it, the collector
has nothing to find there, and need not look.

Thread-safety: under the interpreter lock, by who has just made the object.
"""


cpdef bint pause() noexcept:
    """Collect no garbage until `resume`.

    On CPython 3.11 a collection may begin in any allocation, and with it the application's
    finalizers; later ones begin it between bytecodes only.

    Returns:
        What `resume` is to be given.
    """
    return PyGC_Disable()


cpdef void resume(bint collects) noexcept:
    """Collect garbage again.

    Args:
        collects: What `pause` has returned: whether there was any collecting before.
    """
    if collects:
        PyGC_Enable()


cpdef void untrack(object tracked) noexcept:
    """Let the collector pass over an object; one that it never walks is left as it is.

    Args:
        tracked: Whole, and not collected but by its reference count from now on.
    """
    if PyObject_IS_GC(tracked):
        PyObject_GC_UnTrack(<void*>tracked)
