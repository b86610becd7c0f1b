cpdef Py_ssize_t record_size_bound(
    Py_ssize_t key_bytes, Py_ssize_t value_bytes, Py_ssize_t headers_bytes
) noexcept
