cpdef object java_hash(str text)
