from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE

from kprod._core.record.batch_builder cimport BatchBuilder, RecordFields

# Returned by `take` after the last item.
cdef object END


cdef class Column:
    cdef list _list
    cdef tuple _tuple
    cdef object _iterator
    cdef Py_ssize_t _index
    cdef readonly str role
    # Whether the next item is in memory already, so that taking it runs no code.
    cdef readonly bint is_at_hand
    cdef Py_ssize_t append_run(
        self, BatchBuilder builder, RecordFields* record, Py_ssize_t record_bytes_max
    ) noexcept


# Return the next item, or END. Inline, since a bulk send calls it for each record.
cdef inline object take(Column column):
    cdef Py_ssize_t index = column._index
    column._index += 1
    if column._list is not None:
        if index >= PyList_GET_SIZE(column._list):
            return END
        return <object>PyList_GET_ITEM(column._list, index)
    if column._tuple is not None:
        if index >= PyTuple_GET_SIZE(column._tuple):
            return END
        return <object>PyTuple_GET_ITEM(column._tuple, index)
    return next(column._iterator, END)
