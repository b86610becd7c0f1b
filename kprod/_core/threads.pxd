# Called as functions; set by `register`.
cdef object make_lock
cdef object current

cpdef object current_ident()
