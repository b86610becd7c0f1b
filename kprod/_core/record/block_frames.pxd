cdef long long declared_by_snappy(const unsigned char* at, Py_ssize_t size) noexcept nogil
cdef long long bound_of_lz4(const unsigned char* at, Py_ssize_t size) noexcept nogil
