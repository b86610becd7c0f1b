# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The columns of a bulk send, read one item at a time, never ahead.

Thread-safety: a `Column` belongs to one thread.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.list cimport PyList_CheckExact, PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE

from kprod._core.record.batch_builder cimport APPENDED, BatchBuilder, RecordFields

cdef enum:
    # The longest run of records inside one critical section.
    RUN_RECORDS = 64
    # Most bytes that a batch of one record has besides its value; a generous bound.
    RECORD_BESIDES_BYTES_MAX = 128

END = object()


@cython.final
cdef class Column:
    """The items of one argument, one after the other.

    Args:
        source: Any iterable; a list or tuple is read in place.
        role: The argument's name.
    """

    def __cinit__(self, source, str role not None):
        self.role = role
        if PyList_CheckExact(source):
            self._list = source
        elif PyTuple_CheckExact(source):
            self._tuple = source
        else:
            self._iterator = iter(source)
        self.is_at_hand = self._iterator is None

    cdef Py_ssize_t append_run(
        self, BatchBuilder builder, RecordFields* record, Py_ssize_t record_bytes_max
    ) noexcept:
        """Append items that are bytes and small enough, until one is not or does not fit.

        This runs no Python code; an item that was not appended stays the next one.
        """
        cdef PyObject* item
        cdef Py_ssize_t size
        cdef Py_ssize_t step = 0
        cdef Py_ssize_t item_count = (
            PyTuple_GET_SIZE(self._tuple) if self._list is None else PyList_GET_SIZE(self._list)
        )
        cdef Py_ssize_t value_bytes_max = record_bytes_max - RECORD_BESIDES_BYTES_MAX
        cdef Py_ssize_t run = min(<Py_ssize_t>RUN_RECORDS, item_count - self._index)
        while step < run:
            if self._list is None:
                item = PyTuple_GET_ITEM(self._tuple, self._index)
            else:
                item = PyList_GET_ITEM(self._list, self._index)
            if not PyBytes_CheckExact(<object>item):
                return step
            size = PyBytes_GET_SIZE(<object>item)
            if size > value_bytes_max:
                return step
            record.value = <const unsigned char*>PyBytes_AS_STRING(<object>item)
            record.value_bytes = size
            if builder.append(record) != APPENDED:
                return step
            self._index += 1
            step += 1
        return step
