from libc.stdint cimport int32_t, uint64_t


# A number as `digits` × 10^`exponent`.
cdef struct Decimal:
    uint64_t digits
    int32_t exponent


cdef Decimal shortest_of_double(double number) noexcept nogil
cdef Decimal shortest_of_float(float number) noexcept nogil
