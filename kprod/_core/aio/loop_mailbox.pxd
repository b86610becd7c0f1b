cdef class LoopMailbox


cdef class LoopCall:
    cdef LoopMailbox _mailbox
    cdef int arrive(self) except -1


cdef class LoopMailbox:
    cdef readonly object loop
    cdef object _thread_ident
    cdef object __weakref__
    # A deque: other threads append, the loop's thread takes.
    cdef object _calls
    cdef bint _is_scheduled
    # Waiters of this loop, by the batch that they wait for; for the loop's thread only.
    cdef dict by_result
    cdef bint add(self, LoopCall call) except -1
    cdef bint is_of_this_thread(self) except -1


cdef class LoopSignal(LoopCall):
    cdef readonly object future
    cdef bint notify(self) except -1


cpdef object running_loop()
cdef LoopMailbox calls_of_running_loop()
