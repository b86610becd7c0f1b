# cython: language_level=3


cpdef object write_pieces(int descriptor, list pieces)
cpdef object read_into(int descriptor, bytearray buffer, Py_ssize_t bytes_max=*, Py_ssize_t start=*)
cpdef object peek_into(int descriptor, bytearray buffer)
