# The types of record_reading.py, which is compiled as it stands.

cimport cython

from kprod._core.reader_claim cimport ReaderClaim
from kprod.consumer.activity cimport Activity
from kprod.consumer.assignment cimport Assignment
from kprod.consumer.direct_read cimport DirectRead
from kprod.consumer.hand_over cimport HandOver
from kprod.consumer.parts cimport ConsumerParts
from kprod._core.signal_handlers cimport run_handlers
from kprod._core.threads cimport current_ident


cdef class Reading:
    cdef public ConsumerParts _parts
    cdef public object _restart
    cdef public bint _is_woken
    cdef public bint _is_forked
    cdef public bint _intercepts
    cdef public bint _resets_offsets
    cdef public Py_ssize_t _usual_count
    cdef public object _usual_call
    cdef public object _wakes

    cpdef tuple poll_terms(self, object timeout, object max_records)
    cpdef records_call(self, object max_records)

    @cython.locals(parts=ConsumerParts, alone=ReaderClaim, hand_over=HandOver)
    cpdef hand_out(self, object call, object until_ms)
    cpdef begin(self, object call, object until_ms, object claim, bint runs_steps=*)

    @cython.locals(alone=ReaderClaim)
    cpdef abandon(self, object claim)

    @cython.locals(chunk=object)
    cpdef _check(self, object ident)

    @cython.locals(activity=Activity, parts=ConsumerParts, is_usual=cython.bint)
    cpdef _read(self, object call, object until_ms, bint runs_steps)

    cpdef object _finished(self, object call, object taken)

    @cython.locals(direct_read=DirectRead)
    cpdef _wait(self, object until_ms)

    @cython.locals(assignment=Assignment)
    cpdef _check_offsets(self)
