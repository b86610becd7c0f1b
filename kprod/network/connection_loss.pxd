# The types of connection_loss.py, which is compiled as it stands.

from libc.stdint cimport int64_t


cpdef fail_later(object connection, object cause)
cpdef fail_now(object connection, object cause, int64_t now_ms)
