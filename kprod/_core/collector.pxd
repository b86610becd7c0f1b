cdef extern from "Python.h":
    bint PyObject_IS_GC(object tracked) noexcept
    bint PyObject_GC_IsTracked(object tracked) noexcept
    void PyObject_GC_Track(void* tracked) noexcept
    void PyObject_GC_UnTrack(void* tracked) noexcept
    bint PyGC_Disable() noexcept
    bint PyGC_Enable() noexcept
    const long PY_VERSION_HEX


cdef enum:
    COLLECTS_BETWEEN_BYTECODES = 0x030C0000  # from CPython 3.12 on


cpdef void pause() noexcept
cpdef void resume() noexcept
cpdef void resume_in_child() noexcept
cpdef void untrack(object tracked) noexcept


cdef inline void track_again(object tracked) noexcept:
    if not PyObject_GC_IsTracked(tracked):
        PyObject_GC_Track(<void*>tracked)
