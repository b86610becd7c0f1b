# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Compiled coroutines, which `await` drives without bytecode; most end in their first step.

A Python coroutine costs a frame, and its result an exception that carries it. Here a subclass
implements `advance`, and the interpreter takes the result straight from the type's slot (`am_send`,
which `PyIter_Send` tries first). Where the interpreter does not use that slot, as `await` does not
since 3.12, the result travels in a StopIteration.

Thread-safety: one thread, the event loop's.
Source: PEP 492; Objects/abstract.c of CPython for `PyIter_Send`.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

cdef extern from *:
    """
    typedef PySendResult (*kprod_sendfunc)(PyObject *, PyObject *, PyObject **);

    static void kprod_set_slots(
        PyTypeObject *type, PySendResult (*send)(PyObject *, PyObject *, PyObject **),
        iternextfunc next)
    {
        type->tp_iternext = next;
        type->tp_as_async->am_send = send;
        PyType_Modified(type);
    }

    /* As for a generator's return: the value must not be taken for the exception's arguments. */
    static void kprod_stop_with(PyObject *value)
    {
        PyObject *stop = PyObject_CallOneArg(PyExc_StopIteration, value);
        if (stop != NULL) {
            PyErr_SetObject(PyExc_StopIteration, stop);
            Py_DECREF(stop);
        }
    }
    """
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
        PYGEN_NEXT
    ctypedef PyObject* (*iternextfunc)(PyObject*)
    ctypedef PySendResult (*kprod_sendfunc)(PyObject*, PyObject*, PyObject**)
    ctypedef struct PyTypeObject:
        pass
    void kprod_set_slots(PyTypeObject* type, kprod_sendfunc send, iternextfunc next)
    void kprod_stop_with(PyObject* value)


cdef class CompiledCoroutine:
    """A coroutine whose steps are compiled; a subclass implements them.

    It is accepted wherever a coroutine is: `asyncio.create_task`, `gather`, `run`.
    """

    cdef object advance(self):
        """Run the next step.

        Returns the object to yield to the event loop (None: continue in its next iteration) or,
        having set `is_over`, the result.
        """
        raise NotImplementedError

    cdef int cancel(self) except -1:
        """Leave every queue, since no further step will be taken."""
        return 0

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        return self.send(None)

    def send(self, sent):
        """Run the next step; the last one raises StopIteration with the result."""
        cdef PyObject* owned = NULL
        cdef bint goes_on = _send(<PyObject*>self, NULL, &owned) == PYGEN_NEXT
        step = <object>owned
        Py_DECREF(step)
        if goes_on:
            return step
        raise StopIteration(step)

    def throw(self, kind, error=None, trace=None):
        """End the coroutine by an exception, which is raised again."""
        self.is_over = True
        self.cancel()
        raise as_error(kind, error, trace)

    def close(self):
        """End the coroutine, if it has not ended."""
        if not self.is_over:
            self.is_over = True
            self.cancel()


cdef object as_error(object kind, object error, object trace):
    """Return the exception given to `throw`, in any of the forms that generators take."""
    if error is None:
        error = kind() if isinstance(kind, type) else kind
    elif not isinstance(error, BaseException):
        error = kind(*error) if isinstance(error, tuple) else kind(error)
    return error if trace is None else error.with_traceback(trace)


cdef PySendResult _send(PyObject* self, PyObject* sent, PyObject** result) except PYGEN_ERROR:
    # The argument `sent` is ignored: asyncio sends only None.
    cdef CompiledCoroutine coroutine = <CompiledCoroutine>self
    if coroutine.is_over:
        raise RuntimeError("cannot reuse already awaited coroutine")
    try:
        step = coroutine.advance()
    except:  # noqa: E722 - no step follows any exception
        coroutine.is_over = True
        raise
    Py_INCREF(step)
    result[0] = <PyObject*>step
    return PYGEN_RETURN if coroutine.is_over else PYGEN_NEXT


cdef PyObject* _next(PyObject* self) except? NULL:
    cdef PyObject* step = NULL
    if _send(self, NULL, &step) == PYGEN_RETURN:
        kprod_stop_with(step)
        Py_DECREF(<object>step)
        return NULL
    return step


kprod_set_slots(
    <PyTypeObject*>CompiledCoroutine, <kprod_sendfunc><void*>_send, <iternextfunc><void*>_next
)
