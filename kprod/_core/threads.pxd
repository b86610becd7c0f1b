# Called as functions; set by `register`.
cdef object make_lock
cdef object current

cpdef object current_ident()
cpdef bint wait_for(object lock, double timeout_s) except -1
