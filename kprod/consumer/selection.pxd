# The types of selection.py, which is compiled as it stands.


cdef class Selection:
    cdef public object _parts
    cdef public frozenset _added
