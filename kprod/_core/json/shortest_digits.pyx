# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The fewest decimal digits that read back as the same floating point number, by Schubfach.

Of all such digits, the closest to the number. No memory is allocated and no GIL is needed, which
Python's own conversion does and needs. The powers of ten are computed once, from Python's integers.

Thread-safety: pure functions.
Source: R. Giulietti, The Schubfach way to render doubles (2021), with powers of 128 bits.
"""

from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    ctypedef unsigned long long uint128_t "unsigned __int128"

cdef enum:
    POWER_MIN = -292
    POWER_MAX = 324
    POWER_COUNT = 617

cdef uint64_t[POWER_COUNT] POWERS_HIGH
cdef uint64_t[POWER_COUNT] POWERS_LOW


cdef void _fill_powers():
    for power in range(POWER_MIN, POWER_MAX + 1):
        shift = 127 - _log2_of_power_of_10(power)
        up = 10 ** max(power, 0) << max(shift, 0)
        rounded = up // (10 ** max(-power, 0) << max(-shift, 0)) + 1
        POWERS_HIGH[power - POWER_MIN] = rounded >> 64
        POWERS_LOW[power - POWER_MIN] = rounded & 0xFFFFFFFFFFFFFFFF


cdef inline int32_t _log10_of_power_of_2(int32_t exponent) noexcept nogil:
    """Return floor(log10(2^exponent))."""
    return (exponent * 1262611) >> 22


cdef inline int32_t _log10_of_three_quarters(int32_t exponent) noexcept nogil:
    """Return floor(log10(3/4 × 2^exponent))."""
    return (exponent * 1262611 - 524031) >> 22


cdef inline int32_t _log2_of_power_of_10(int32_t exponent) noexcept nogil:
    """Return floor(log2(10^exponent))."""
    return (exponent * 1741647) >> 19


_fill_powers()


cdef Decimal shortest_of_double(double number) noexcept nogil:
    """Return the digits of a finite number's magnitude, without zeros at their end."""
    cdef uint64_t bits
    cdef uint64_t fraction
    cdef int32_t biased
    memcpy(&bits, &number, 8)
    fraction = bits & 0xFFFFFFFFFFFFFU
    biased = <int32_t>((bits >> 52) & 0x7FF)
    if biased == 0:
        return _shortest(fraction, -1074, False)
    return _shortest(
        fraction | (<uint64_t>1 << 52), biased - 1075, fraction == 0 and biased > 1
    )


cdef Decimal shortest_of_float(float number) noexcept nogil:
    """Return the digits of a finite number's magnitude, without zeros at their end."""
    cdef uint32_t bits
    cdef uint32_t fraction
    cdef int32_t biased
    memcpy(&bits, &number, 4)
    fraction = bits & 0x7FFFFFU
    biased = <int32_t>((bits >> 23) & 0xFF)
    if biased == 0:
        return _shortest(fraction, -149, False)
    return _shortest(
        fraction | (<uint32_t>1 << 23), biased - 150, fraction == 0 and biased > 1
    )


cdef Decimal _shortest(
    uint64_t significand, int32_t exponent, bint is_lower_closer
) noexcept nogil:
    """Return the shortest decimal of significand × 2^exponent.

    Everything is scaled by 4, so that the borders of the interval that reads back as the number,
    half a unit away (a quarter below a power of 2), are integers.
    """
    cdef Decimal found
    if significand == 0:
        found.digits, found.exponent = 0, 0
        return found
    cdef int32_t k = _log10_of_power_of_2(exponent)
    if is_lower_closer:
        k = _log10_of_three_quarters(exponent)
    cdef int32_t shift = exponent + _log2_of_power_of_10(-k) + 1
    cdef uint64_t high = POWERS_HIGH[-k - POWER_MIN]
    cdef uint64_t low = POWERS_LOW[-k - POWER_MIN]
    cdef uint64_t scaled = significand << 2
    cdef bint is_odd = significand & 1
    cdef uint64_t lower = _times(high, low, (scaled - 2 + is_lower_closer) << shift) + is_odd
    cdef uint64_t middle = _times(high, low, scaled << shift)
    cdef uint64_t upper = _times(high, low, (scaled + 2) << shift) - is_odd
    cdef uint64_t quotient = middle >> 2
    cdef uint64_t tenth = quotient // 10
    cdef bint is_low_inside
    cdef bint is_high_inside
    found.exponent = k
    if quotient >= 10:
        is_low_inside = lower <= 40 * tenth
        is_high_inside = 40 * tenth + 40 <= upper
        if is_low_inside != is_high_inside:
            found.digits = tenth + is_high_inside
            found.exponent = k + 1
            return _without_zeros(found)
    is_low_inside = lower <= 4 * quotient
    is_high_inside = 4 * quotient + 4 <= upper
    if is_low_inside != is_high_inside:
        found.digits = quotient + is_high_inside
    else:
        # Both are, or none is: the closer one, and the even one of two as close.
        found.digits = quotient
        if middle > 4 * quotient + 2 or (middle == 4 * quotient + 2 and quotient & 1):
            found.digits += 1
    return _without_zeros(found)


cdef inline uint64_t _times(uint64_t high, uint64_t low, uint64_t factor) noexcept nogil:
    """Return bits 128 to 191 of a product; its last bit is set if anything below them is."""
    cdef uint128_t below = <uint128_t>low * factor
    cdef uint128_t product = <uint128_t>high * factor + (below >> 64)
    return <uint64_t>(product >> 64) | (<uint64_t>product > 1)


cdef inline Decimal _without_zeros(Decimal found) noexcept nogil:
    while found.digits % 10 == 0:
        found.digits //= 10
        found.exponent += 1
    return found
