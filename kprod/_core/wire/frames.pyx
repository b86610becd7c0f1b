# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The two numbers at the start of every response: its length and its correlation id.

Most often the received bytes are exactly one response; it is extracted here in one step.

Thread-safety: any thread; functions of their arguments.
Source: Kafka's protocol guide, "Common request and response structure".
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t

from kprod._core.endian cimport load_int32

from kprod.errors import RemoteProtocolError

cdef enum:
    INT32_BYTES = 4


def whole_frame(bytearray buffer not None, Py_ssize_t count_bytes, int64_t bytes_max):
    """Extract a frame if the received bytes are exactly that frame.

    Args:
        buffer: Begins with the received bytes.
        count_bytes: Number of received bytes; at most the buffer's length.
        bytes_max: The longest frame to accept.

    Returns:
        A copy of the frame without its length prefix; None if the bytes are anything else.
    """
    cdef const char* start = PyByteArray_AS_STRING(buffer)
    cdef int64_t size_bytes = count_bytes - INT32_BYTES
    if size_bytes < INT32_BYTES or size_bytes > bytes_max:
        return None
    if count_bytes > PyByteArray_GET_SIZE(buffer):
        return None
    if load_int32(<const unsigned char*>start) != size_bytes:
        return None
    return PyBytes_FromStringAndSize(start + INT32_BYTES, size_bytes)


def resize_frame(bytearray frame not None, Py_ssize_t size_bytes):
    """Change the size of a frame that is being written, without writing to the new memory.

    Args:
        frame: No view of it may be in use.
        size_bytes: At least 0.

    Raises:
        MemoryError: There is not enough memory.
    """
    PyByteArray_Resize(frame, size_bytes)


def correlation_id_of(frame) -> int:
    """Read a response's correlation id.

    Args:
        frame: `bytes` or `bytearray`, without the length prefix.

    Returns:
        Any int32.

    Raises:
        RemoteProtocolError: The frame is too short to have one.
    """
    cdef const char* start
    cdef Py_ssize_t size_bytes
    if type(frame) is bytes:
        start = PyBytes_AS_STRING(frame)
        size_bytes = PyBytes_GET_SIZE(frame)
    else:
        start = PyByteArray_AS_STRING(<bytearray?>frame)
        size_bytes = PyByteArray_GET_SIZE(frame)
    if size_bytes < INT32_BYTES:
        raise RemoteProtocolError(f"a response of {size_bytes} bytes has no correlation id")
    return load_int32(<const unsigned char*>start)
