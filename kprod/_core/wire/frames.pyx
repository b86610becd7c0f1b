# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The two numbers at the beginning of every response: its length and its correlation id.

Most often what has arrived is one response, whole and alone; it is cut out here in one step.

Thread-safety: functions of their arguments.
Source: Kafka's protocol guide, "Common request and response structure".
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t

from kprod._core.endian cimport load_int32

from kprod.errors import RemoteProtocolError

cdef enum:
    INT32_BYTES = 4


def whole_frame(bytearray buffer not None, Py_ssize_t count_bytes, int64_t bytes_max):
    """Cut out a frame that is all there is.

    Args:
        buffer: Begins with what has arrived.
        count_bytes: How many bytes have; at most the buffer's length.
        bytes_max: The longest frame to accept.

    Returns:
        The frame without its length, copied; None if there is less, more, or no frame at all.
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


def correlation_id_of(frame) -> int:
    """Read a response's correlation id.

    Args:
        frame: `bytes` or `bytearray`, without its length.

    Returns:
        Any int32.

    Raises:
        RemoteProtocolError: It is too short to have one.
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
