# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Numbers as JSON, in the form that Java gives them.

A floating point number has a point and at least one digit after it, and an exponent below 10⁻³ and
from 10⁷ on. What JSON has no number for is a string. A decimal has all digits of its scale, and an
exponent where its first digit comes more than six places after the point.

Thread-safety: pure functions; the GIL is not needed.
Source: Java SE 19, Double.toString and BigDecimal.toString.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from kprod._core.json.json_buffer cimport JsonBuffer, put_byte, put_bytes, reserve
from kprod._core.json.shortest_digits cimport Decimal

cdef extern from *:
    ctypedef unsigned long long uint128_t "unsigned __int128"

cdef enum:
    # The digits of 2^127, with room for a sign, a point, zeros in front and an exponent.
    DIGITS_MAX = 40
    NUMBER_BYTES_MAX = 128
    # Numbers from 10^-3 to below 10^7 have no exponent.
    PLAIN_POINT_MIN = -2
    PLAIN_POINT_MAX = 7
    PLAIN_DECIMAL_EXPONENT_MIN = -6


cdef int put_integer(JsonBuffer* text, int64_t number) except -1 nogil:
    """Write a whole number."""
    cdef uint8_t[DIGITS_MAX] digits
    cdef int count
    reserve(text, NUMBER_BYTES_MAX)
    if number < 0:
        put_byte(text, c"-")
        count = _digits_of(0 - <uint64_t>number, digits)
    else:
        count = _digits_of(<uint64_t>number, digits)
    put_bytes(text, digits + DIGITS_MAX - count, count)
    return 0


cdef int put_floating(
    JsonBuffer* text, Decimal decimal, bint is_negative, bint is_finite, bint is_nan
) except -1 nogil:
    """Write a floating point number of these digits."""
    cdef uint8_t[DIGITS_MAX] buffer
    cdef const uint8_t* digits
    cdef int count
    cdef int point
    reserve(text, NUMBER_BYTES_MAX)
    if is_nan:
        put_bytes(text, b'"NaN"', 5)
        return 0
    if not is_finite:
        if is_negative:
            put_bytes(text, b'"-Infinity"', 11)
        else:
            put_bytes(text, b'"Infinity"', 10)
        return 0
    if is_negative:
        put_byte(text, c"-")
    if decimal.digits == 0:
        put_bytes(text, b"0.0", 3)
        return 0
    count = _digits_of(decimal.digits, buffer)
    digits = buffer + DIGITS_MAX - count
    point = decimal.exponent + count  # the number is 0.digits × 10^point
    if not PLAIN_POINT_MIN <= point <= PLAIN_POINT_MAX:
        _put_scientific(text, digits, count, point - 1, True)
    elif point <= 0:
        put_bytes(text, b"0.", 2)
        _put_zeros(text, -point)
        put_bytes(text, digits, count)
    elif point >= count:
        put_bytes(text, digits, count)
        _put_zeros(text, point - count)
        put_bytes(text, b".0", 2)
    else:
        put_bytes(text, digits, point)
        put_byte(text, c".")
        put_bytes(text, digits + point, count - point)
    return 0


cdef int put_decimal(JsonBuffer* text, const uint64_t* words, int scale) except -1 nogil:
    """Write a decimal of 128 bits, its low word first, with `scale` digits after the point."""
    cdef uint8_t[DIGITS_MAX] buffer
    cdef const uint8_t* digits
    cdef uint128_t unscaled = (<uint128_t>words[1] << 64) | words[0]
    cdef int count
    cdef int exponent
    reserve(text, NUMBER_BYTES_MAX + max(scale, 0))
    if words[1] >> 63:
        unscaled = 0 - unscaled
        put_byte(text, c"-")
    count = _long_digits_of(unscaled, buffer)
    digits = buffer + DIGITS_MAX - count
    exponent = count - 1 - scale
    if scale == 0:
        put_bytes(text, digits, count)
    elif scale < 0 or exponent < PLAIN_DECIMAL_EXPONENT_MIN:
        _put_scientific(text, digits, count, exponent, False)
    elif exponent < 0:
        put_bytes(text, b"0.", 2)
        _put_zeros(text, scale - count)
        put_bytes(text, digits, count)
    else:
        put_bytes(text, digits, count - scale)
        put_byte(text, c".")
        put_bytes(text, digits + count - scale, scale)
    return 0


cdef void _put_scientific(
    JsonBuffer* text, const uint8_t* digits, int count, int exponent, bint is_floating
) noexcept nogil:
    """Write one digit, the others after a point, and the exponent: each type's way."""
    cdef uint8_t[DIGITS_MAX] buffer
    cdef int exponent_count = _digits_of(<uint64_t>abs(exponent), buffer)
    put_byte(text, digits[0])
    if count > 1:
        put_byte(text, c".")
        put_bytes(text, digits + 1, count - 1)
    elif is_floating:
        put_bytes(text, b".0", 2)
    put_byte(text, c"E")
    if exponent < 0:
        put_byte(text, c"-")
    elif not is_floating:
        put_byte(text, c"+")
    put_bytes(text, buffer + DIGITS_MAX - exponent_count, exponent_count)


cdef void put_padded(JsonBuffer* text, uint64_t number, int width) noexcept nogil:
    """Write a number with zeros before it; room is reserved."""
    cdef uint8_t[DIGITS_MAX] digits
    cdef int count
    if width == 2 and number < 100:
        put_byte(text, <uint8_t>(c"0" + number // 10))
        put_byte(text, <uint8_t>(c"0" + number % 10))
        return
    count = _digits_of(number, digits)
    _put_zeros(text, width - count)
    put_bytes(text, digits + DIGITS_MAX - count, count)


cdef inline void _put_zeros(JsonBuffer* text, int count) noexcept nogil:
    while count > 0:
        put_byte(text, c"0")
        count -= 1


cdef inline int _digits_of(uint64_t number, uint8_t* digits) noexcept nogil:
    """Write digits up to the end of a buffer; return how many."""
    cdef int at = DIGITS_MAX
    while True:
        at -= 1
        digits[at] = <uint8_t>(c"0" + number % 10)
        number //= 10
        if number == 0:
            return DIGITS_MAX - at


cdef int _long_digits_of(uint128_t number, uint8_t* digits) noexcept nogil:
    cdef int at = DIGITS_MAX
    if number >> 64 == 0:
        return _digits_of(<uint64_t>number, digits)
    while number:
        at -= 1
        digits[at] = <uint8_t>(c"0" + <int>(number % 10))
        number //= 10
    return DIGITS_MAX - at
