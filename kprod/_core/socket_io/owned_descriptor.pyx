# cython: language_level=3, boundscheck=False, wraparound=False
# cython: nonecheck=True, auto_pickle=False
"""A file descriptor that is closed with the last reference to it.

Whoever uses the number holds its owner. So it cannot go to somebody else's file in the moment
between a look whether it is still open and the use.

The closing is compiled: a finalizer in Python would run signal handlers, and what one of these
raises there, a Ctrl-C, never reaches the application.

Thread-safety: any thread may hold one and use the number.
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
    """An open descriptor, and the duty to close it."""

    def __cinit__(self, int descriptor):
        """Own it from now on.

        Args:
            descriptor: Open; nobody else closes it.

        Raises:
            ValueError: It is negative.
        """
        if descriptor < 0:
            raise ValueError(f"a descriptor to own must not be negative: {descriptor}")
        self._descriptor = descriptor
        self._is_owned = True

    def __dealloc__(self):
        # An argument that is no int ends before `__cinit__` begins, and 0 is a descriptor.
        if self._is_owned:
            close_descriptor(self._descriptor)  # on EINTR it is closed all the same

    def fileno(self) -> int:
        """The number, for as long as the caller holds this object."""
        return self._descriptor

    def write(self, bytes data not None) -> int:
        """Write once, without the interpreter lock; the bound method keeps the descriptor open.

        For descriptors that do not block: signal handlers have to wait.

        Args:
            data: What to write.

        Returns:
            Bytes written.

        Raises:
            OSError: Nothing was; `BlockingIOError` if there is no room.
        """
        cdef const char* begin = PyBytes_AS_STRING(data)
        cdef Py_ssize_t size_bytes = PyBytes_GET_SIZE(data)
        cdef ssize_t written
        with nogil:
            written = write_bytes(self._descriptor, begin, size_bytes)
            while written < 0 and errno == EINTR:
                written = write_bytes(self._descriptor, begin, size_bytes)
        if written < 0:
            PyErr_SetFromErrno(OSError)  # taking the lock keeps `errno`
        return written
