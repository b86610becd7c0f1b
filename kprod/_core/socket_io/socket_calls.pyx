# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Reads and writes of a socket that never blocks, without giving up the interpreter lock.

What such a socket has, or has room for, is copied: about a fifth of a millisecond for a megabyte.
Who gives the lock up for that stands in line behind a busy caller for the interpreter's whole
switch interval, 5 ms, and that for each call: it bounds the rate.

Thread-safety: the interpreter lock is held throughout; one reader and one writer a socket.
Source: sendmsg(2), recv(2); CPython's `sys.setswitchinterval`.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.exc cimport PyErr_SetFromErrno
from cpython.list cimport PyList_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.errno cimport EAGAIN, EINTR, errno
from libc.string cimport memset

cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX

cdef extern from "<sys/uio.h>" nogil:
    cdef struct iovec:
        void* iov_base
        size_t iov_len

cdef extern from "<sys/socket.h>" nogil:
    cdef struct msghdr:
        iovec* msg_iov
        size_t msg_iovlen
    ssize_t sendmsg(int descriptor, const msghdr* message, int flags)
    ssize_t recv(int descriptor, void* memory, size_t size_bytes, int flags)
    int MSG_DONTWAIT
    int MSG_PEEK

cdef extern from *:
    """
    #ifndef MSG_NOSIGNAL
    #define MSG_NOSIGNAL 0  /* where it is missing, CPython ignores SIGPIPE all the same */
    #endif
    """
    int MSG_NOSIGNAL

cdef enum:
    VIEWS_MAX = 1024  # as Linux and macOS allow
    VIEWS_ON_STACK_MAX = 64

PIECES_MAX = int(VIEWS_MAX)


def write_pieces(int descriptor, list pieces not None) -> int:
    """Write the beginning of these pieces, as much as the socket takes.

    Args:
        descriptor: A connected stream socket.
        pieces: Buffers of contiguous bytes, in order; at most `PIECES_MAX` are looked at.

    Returns:
        Bytes taken; 0 when the socket is full.

    Raises:
        OSError: The connection is gone.
        BufferError: A piece is not contiguous.
    """
    cdef Py_buffer[VIEWS_ON_STACK_MAX] few_views
    cdef iovec[VIEWS_ON_STACK_MAX] few_vectors
    cdef Py_buffer* views = few_views
    cdef iovec* vectors = few_vectors
    cdef void* room = NULL
    cdef msghdr message
    cdef Py_ssize_t count = min(PyList_GET_SIZE(pieces), <Py_ssize_t>VIEWS_MAX)
    cdef Py_ssize_t held = 0
    cdef ssize_t written
    if count > VIEWS_ON_STACK_MAX:
        room = PyMem_Malloc(count * (sizeof(Py_buffer) + sizeof(iovec)))
        if room == NULL:
            raise MemoryError(f"no memory to write {count} pieces")
        views = <Py_buffer*>room
        vectors = <iovec*>(views + count)
    try:
        while held < count:
            PyObject_GetBuffer(pieces[held], &views[held], PyBUF_SIMPLE)
            vectors[held].iov_base = views[held].buf
            vectors[held].iov_len = <size_t>views[held].len
            held += 1
        memset(&message, 0, sizeof(message))
        message.msg_iov = vectors
        message.msg_iovlen = <size_t>count
        written = sendmsg(descriptor, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
        while written < 0 and errno == EINTR:
            written = sendmsg(descriptor, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
        if written < 0:
            if errno == EAGAIN:  # as EWOULDBLOCK is, where Python runs
                return 0
            PyErr_SetFromErrno(OSError)
        return written
    finally:
        while held > 0:
            held -= 1
            PyBuffer_Release(&views[held])
        PyMem_Free(room)


def read_into(int descriptor, bytearray buffer not None, Py_ssize_t bytes_max=PY_SSIZE_T_MAX):
    """Read once.

    Args:
        descriptor: A connected stream socket.
        buffer: Filled from its beginning; at least one byte.
        bytes_max: Leave what is beyond; at least 1.

    Returns:
        Bytes read; 0 when the peer has closed; None when nothing has arrived.

    Raises:
        OSError: The connection is gone.
    """
    return _receive(descriptor, buffer, bytes_max, MSG_DONTWAIT)


def peek_into(int descriptor, bytearray buffer not None):
    """As `read_into`, and leave everything where it is."""
    return _receive(descriptor, buffer, PY_SSIZE_T_MAX, MSG_DONTWAIT | MSG_PEEK)


cdef object _receive(int descriptor, bytearray buffer, Py_ssize_t bytes_max, int flags):
    cdef void* memory = PyByteArray_AS_STRING(buffer)
    cdef size_t size_bytes = <size_t>min(PyByteArray_GET_SIZE(buffer), bytes_max)
    cdef ssize_t count_bytes = recv(descriptor, memory, size_bytes, flags)
    while count_bytes < 0 and errno == EINTR:
        count_bytes = recv(descriptor, memory, size_bytes, flags)
    if count_bytes < 0:
        if errno == EAGAIN:
            return None
        PyErr_SetFromErrno(OSError)
    return count_bytes
