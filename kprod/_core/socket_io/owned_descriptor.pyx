# cython: language_level=3, boundscheck=False, wraparound=False
# cython: nonecheck=True, auto_pickle=False
"""A file descriptor that is closed with the last reference to it.

Code that uses the number holds its owner. So the number cannot be reused for another file between
a check that it is open and its use.

The closing is compiled: a finalizer in Python would run signal handlers, and an exception that one
of these raises there, as on Ctrl-C, never reaches the application.

Thread-safety: any thread may hold an owner and use the number.
Source: close(2); CPython's `object.__del__`, on exceptions that are ignored.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_SetFromErrno
from libc.errno cimport EINTR, errno

cdef extern from "<unistd.h>" nogil:
    int close_descriptor "close"(int descriptor)
    ssize_t write_bytes "write"(int descriptor, const void* data, size_t size_bytes)


@cython.final
cdef class OwnedDescriptor:
    """An open descriptor, which is closed with this object."""

    def __cinit__(self, int descriptor):
        """Take ownership of a descriptor.

        Args:
            descriptor: An open one that no other code closes.

        Raises:
            ValueError: It is negative.
        """
        if descriptor < 0:
            raise ValueError(f"a descriptor to own must not be negative: {descriptor}")
        self._descriptor = descriptor
        self._is_owned = True

    def __dealloc__(self):
        # For an argument that is not an int `__cinit__` never runs, and 0 is a descriptor, too.
        if self._is_owned:
            close_descriptor(self._descriptor)  # EINTR also means that it is closed

    def fileno(self) -> int:
        """Return the number, which is valid for as long as the caller holds this object."""
        return self._descriptor

    def write(self, bytes data not None) -> int:
        """Write once, with the GIL released; the bound method keeps the descriptor open.

        Only for non-blocking descriptors, since signal handlers have to wait.

        Args:
            data: Bytes to write.

        Returns:
            Bytes written.

        Raises:
            OSError: Nothing was written; `BlockingIOError` if there is no space.
        """
        cdef const char* begin = PyBytes_AS_STRING(data)
        cdef Py_ssize_t size_bytes = PyBytes_GET_SIZE(data)
        cdef ssize_t written
        with nogil:
            written = write_bytes(self._descriptor, begin, size_bytes)
            while written < 0 and errno == EINTR:
                written = write_bytes(self._descriptor, begin, size_bytes)
        if written < 0:
            PyErr_SetFromErrno(OSError)  # acquiring the GIL keeps `errno`
        return written
