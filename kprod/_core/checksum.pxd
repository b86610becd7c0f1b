cdef object crc32c(object data, object start)
