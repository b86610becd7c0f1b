# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Non-blocking reads and writes of a socket; only a large read releases the GIL.

The calls only copy bytes that the socket has, or has space for: about a fifth of a millisecond per
megabyte. Releasing the GIL would cost a full switch interval (5 ms) per call while another thread
is busy, and so would limit the rate of calls. A read that continues a large buffer, as the rest of
a fetch response, releases it nevertheless: such a response takes few calls, and the application
decodes the one before meanwhile.

Thread-safety: one reader and one writer per socket; nobody else uses the buffer of a read.
Source: sendmsg(2), recv(2); CPython's `sys.setswitchinterval`.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.exc cimport PyErr_SetFromErrno
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
    #define MSG_NOSIGNAL 0  /* CPython ignores SIGPIPE in any case */
    #endif
    """
    int MSG_NOSIGNAL

cdef enum:
    VIEWS_MAX = 1024  # the limit of Linux and macOS
    VIEWS_ON_STACK_MAX = 64
    RELEASE_BYTES_MIN = 64 * 1024  # copied in about the time of two handovers of the GIL

PIECES_MAX = int(VIEWS_MAX)


cpdef object write_pieces(int descriptor, list pieces):
    """Write the start of these pieces, as much as the socket takes.

    Args:
        descriptor: A connected stream socket.
        pieces: Buffers of contiguous bytes, in order; at most the first `PIECES_MAX` are used.

    Returns:
        Bytes written; 0 if the socket is full.

    Raises:
        OSError: The connection is lost.
        BufferError: A piece is not contiguous.
    """
    cdef Py_buffer[VIEWS_ON_STACK_MAX] few_views
    cdef iovec[VIEWS_ON_STACK_MAX] few_vectors
    cdef Py_buffer* views = few_views
    cdef iovec* vectors = few_vectors
    cdef void* room = NULL
    cdef msghdr message
    cdef Py_ssize_t count = min(<Py_ssize_t>len(pieces), <Py_ssize_t>VIEWS_MAX)
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
            if errno == EAGAIN:  # equals EWOULDBLOCK on Python's platforms
                return 0
            PyErr_SetFromErrno(OSError)
        return written
    finally:
        while held > 0:
            held -= 1
            PyBuffer_Release(&views[held])
        PyMem_Free(room)


cpdef object read_into(
    int descriptor,
    bytearray buffer,
    Py_ssize_t bytes_max=PY_SSIZE_T_MAX,
    Py_ssize_t start=0,
):
    """Read once.

    Args:
        descriptor: A connected stream socket.
        buffer: Filled from `start` on; at least one byte longer.
        bytes_max: Maximum number of bytes to read; at least 1.
        start: Position in the buffer, at least 0. If it is above 0, a read is continued: the GIL is
            released if 64 KiB or more may be read.

    Returns:
        Number of bytes; 0 if the peer has closed; None if none have arrived.

    Raises:
        OSError: The connection is lost.
        ValueError: `start` is not in the buffer.
    """
    return _receive(descriptor, buffer, bytes_max, start, MSG_DONTWAIT)


cpdef object peek_into(int descriptor, bytearray buffer):
    """Read as `read_into` does, but leave the bytes in the socket."""
    return _receive(descriptor, buffer, PY_SSIZE_T_MAX, 0, MSG_DONTWAIT | MSG_PEEK)


cdef object _receive(
    int descriptor, bytearray buffer, Py_ssize_t bytes_max, Py_ssize_t start, int flags
):
    cdef Py_buffer view
    cdef void* memory
    cdef Py_ssize_t size_bytes = min(<Py_ssize_t>len(buffer) - start, bytes_max)
    cdef ssize_t count_bytes
    if start < 0 or size_bytes < 0:
        raise ValueError(f"start={start} in {PyByteArray_GET_SIZE(buffer)} bytes")
    memory = PyByteArray_AS_STRING(buffer) + start
    if start > 0 and size_bytes >= RELEASE_BYTES_MIN:
        PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)  # so that it cannot be resized meanwhile
        with nogil:
            count_bytes = _receive_once(descriptor, memory, size_bytes, flags)
        PyBuffer_Release(&view)
    else:
        count_bytes = _receive_once(descriptor, memory, size_bytes, flags)
    if count_bytes < 0:
        if errno == EAGAIN:
            return None
        PyErr_SetFromErrno(OSError)
    return count_bytes


cdef ssize_t _receive_once(
    int descriptor, void* memory, size_t size_bytes, int flags
) noexcept nogil:
    cdef ssize_t count_bytes = recv(descriptor, memory, size_bytes, flags)
    while count_bytes < 0 and errno == EINTR:
        count_bytes = recv(descriptor, memory, size_bytes, flags)
    return count_bytes
