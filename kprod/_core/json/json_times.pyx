# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Dates and points in time as JSON strings, with three digits of a second, as `to_json` has them.

A zone's offset is looked up for a quarter of an hour at a time, with the GIL, and kept. Offsets
change at quarters of an hour; where one did not, in times before clocks were set by zones, the
instant itself is looked up.

Thread-safety: a `ZoneOffsets` belongs to one thread.
Source: Spark 4.1, patterns `uuuu-MM-dd` and `uuuu-MM-dd'T'HH:mm:ss.SSSXXX`; the civil calendar's
arithmetic is that of H. Hinnant, chrono-compatible low-level date algorithms.
"""

import datetime as dt

from libc.stdint cimport int32_t, int64_t, uint64_t

from kprod._core.json.json_buffer cimport JsonBuffer, put_byte, reserve
from kprod._core.json.json_numbers cimport put_padded

cdef enum:
    MS_PER_S = 1000
    S_PER_DAY = 86400
    S_PER_SLOT = 900
    INSTANT_BYTES_MAX = 64
    YEAR_DIGITS = 4
    YEAR_PLAIN_MAX = 9999
    DAYS_PER_400_YEARS = 146097
    # From 1 March of year 0 to 1 January 1970.
    DAYS_TO_1970 = 719468

cdef int64_t NO_SLOT = -(<int64_t>1 << 62)
# The zone database of Python knows these years; others are taken as the nearest of them.
cdef int64_t SECONDS_MIN = -62135510400
cdef int64_t SECONDS_MAX = 253402214400
cdef object EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


cdef int set_zone(ZoneOffsets* offsets, zone) except -1:
    """Set the zone: seconds from UTC, or a `tzinfo`, which the caller keeps alive."""
    cdef int slot
    offsets.zone = NULL
    offsets.fixed = 0
    if isinstance(zone, int):
        offsets.fixed = zone
        return 0
    offsets.zone = <void*>zone
    for slot in range(CACHED_SLOTS):
        offsets.slots[slot] = NO_SLOT
    return 0


cdef int put_date(JsonBuffer* text, int64_t day) except -1 nogil:
    """Write a day, counted from 1970."""
    reserve(text, INSTANT_BYTES_MAX)
    put_byte(text, c'"')
    _put_day(text, day)
    put_byte(text, c'"')
    return 0


cdef int put_instant(JsonBuffer* text, int64_t ms, ZoneOffsets* offsets) except -1 nogil:
    """Write a point in time, in milliseconds from 1970: a zone's, or, with NULL, of no zone."""
    cdef int64_t seconds = _floor_divide(ms, MS_PER_S)
    cdef int64_t part_ms = ms - seconds * MS_PER_S
    cdef int64_t offset = 0
    cdef int64_t day
    cdef int64_t second
    if offsets != NULL:
        offset = _offset_at(offsets, seconds)
    day = _floor_divide(seconds + offset, S_PER_DAY)
    second = seconds + offset - day * S_PER_DAY
    reserve(text, INSTANT_BYTES_MAX)
    put_byte(text, c'"')
    _put_day(text, day)
    put_byte(text, c"T")
    put_padded(text, second // 3600, 2)
    put_byte(text, c":")
    put_padded(text, second // 60 % 60, 2)
    put_byte(text, c":")
    put_padded(text, second % 60, 2)
    put_byte(text, c".")
    put_padded(text, part_ms, 3)
    if offsets != NULL:
        _put_offset(text, offset)
    put_byte(text, c'"')
    return 0


cdef void _put_offset(JsonBuffer* text, int64_t offset) noexcept nogil:
    cdef int64_t seconds = offset if offset >= 0 else -offset
    if seconds == 0:
        put_byte(text, c"Z")
        return
    put_byte(text, c"-" if offset < 0 else c"+")
    put_padded(text, seconds // 3600, 2)
    put_byte(text, c":")
    put_padded(text, seconds // 60 % 60, 2)
    if seconds % 60:  # before clocks were set by zones
        put_byte(text, c":")
        put_padded(text, seconds % 60, 2)


cdef void _put_day(JsonBuffer* text, int64_t day) noexcept nogil:
    """Write year, month and day of the proleptic Gregorian calendar, whose years begin in March."""
    cdef int64_t shifted = day + DAYS_TO_1970
    cdef int64_t era = _floor_divide(shifted, DAYS_PER_400_YEARS)
    cdef int64_t day_of_era = shifted - era * DAYS_PER_400_YEARS
    cdef int64_t year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096
    ) // 365
    cdef int64_t day_of_year = day_of_era - (
        365 * year_of_era + year_of_era // 4 - year_of_era // 100
    )
    cdef int64_t month = (5 * day_of_year + 2) // 153
    cdef int64_t year = year_of_era + era * 400 + (month >= 10)
    if year > YEAR_PLAIN_MAX:
        put_byte(text, c"+")
    elif year < 0:
        put_byte(text, c"-")
    put_padded(text, <uint64_t>(year if year >= 0 else -year), YEAR_DIGITS)
    put_byte(text, c"-")
    put_padded(text, month + 3 if month < 10 else month - 9, 2)
    put_byte(text, c"-")
    put_padded(text, day_of_year - (153 * month + 2) // 5 + 1, 2)


cdef inline int64_t _floor_divide(int64_t number, int64_t divisor) noexcept nogil:
    cdef int64_t quotient = number // divisor
    return quotient - (number % divisor < 0)


cdef int64_t _offset_at(ZoneOffsets* offsets, int64_t seconds) except? -1 nogil:
    cdef int64_t slot
    cdef int at
    if offsets.zone == NULL:
        return offsets.fixed
    slot = _floor_divide(seconds, S_PER_SLOT)
    at = <int>(slot & (CACHED_SLOTS - 1))
    if offsets.slots[at] == slot:
        return offsets.offsets[at]
    with gil:
        return _looked_up(offsets, seconds, slot, at)


cdef int64_t _looked_up(
    ZoneOffsets* offsets, int64_t seconds, int64_t slot, int at
) except? -1:
    first = _asked(offsets.zone, slot * S_PER_SLOT)
    if first != _asked(offsets.zone, slot * S_PER_SLOT + S_PER_SLOT - 1):
        return _asked(offsets.zone, seconds)
    offsets.slots[at] = slot
    offsets.offsets[at] = first
    return first


cdef int32_t _asked(void* zone, int64_t seconds) except? -1:
    cdef int64_t known = min(max(seconds, SECONDS_MIN), SECONDS_MAX)
    moment = (EPOCH + dt.timedelta(seconds=known)).astimezone(<object>zone)
    return <int32_t>moment.utcoffset().total_seconds()
