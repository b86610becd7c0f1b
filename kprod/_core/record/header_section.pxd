# Returns None if the section would exceed `bytes_max`.
cdef bytes encode_header_section(object headers, Py_ssize_t bytes_max)
