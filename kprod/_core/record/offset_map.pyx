# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The newest offset of each key of a log's dirty part, in a bounded amount of memory.

Keys are not kept, only their hashes of 128 bits: open addressing with 24 bytes a slot, of which at
most nine tenths are in use. Two keys of one hash would be one key, so the hash has a secret key of
its own in each map: nobody can choose two that collide.

Invariants.
    At least one slot is free, so every search ends. No key is ever removed.
    `latest_offset` never goes down.

Complexity: O(1) for each record.

Thread-safety: one thread at a time.
Source: Kafka SkimpyOffsetMap (4.3), which hashes with MD5.
"""

cimport cython
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kprod._core.prefetch cimport prefetch_line
from kprod._core.record.batch_reader cimport RecordBatch
from kprod._core.record.record_fields cimport RecordFields
from kprod._core.record.record_iterator cimport RecordIterator
from kprod._core.record.siphash cimport SIPHASH_KEY_BYTES, load_little64, siphash128

cdef extern from *:
    """
    #define kprod_scaled(hash, count) \\
        ((Py_ssize_t)(((unsigned __int128)(hash) * (unsigned __int128)(count)) >> 64))
    """
    # A hash of 64 bits as one of `count` numbers, without a division.
    Py_ssize_t scaled "kprod_scaled"(uint64_t hash, Py_ssize_t count) noexcept nogil

cdef enum:
    SLOT_BYTES = 24
    SLOTS_MIN = 2
    # Keys are hashed this many records ahead of the use of their slots, which are prefetched.
    AHEAD = 32

cdef double LOAD_FACTOR = 0.9


@cython.final
cdef class OffsetMap:
    """Offsets by key.

    Args:
        buffer_bytes: Memory of the slots, taken when the first key comes; there is room for one
            key at least.
        secret: 16 random bytes, the key of the hash.

    Attributes:
        latest_offset: All records up to this one were looked at; -1 at first.

    Thread-safety: one thread at a time.
    """

    def __init__(self, Py_ssize_t buffer_bytes, bytes secret not None):
        if self._slots != NULL:
            raise TypeError("an OffsetMap is made once")
        self._slot_count = max(buffer_bytes // <Py_ssize_t>SLOT_BYTES, <Py_ssize_t>SLOTS_MIN)
        self._keys_max = max(
            <Py_ssize_t>(buffer_bytes // <Py_ssize_t>SLOT_BYTES * LOAD_FACTOR), 1)
        _load_key(self._secret, secret)
        self.latest_offset = -1

    def __dealloc__(self):
        PyMem_RawFree(self._slots)

    def __len__(self):
        return self._count

    @property
    def utilization(self):
        """Share of the room that is in use, 0 to 1."""
        return self._count / <double>self._keys_max

    def learn(self, RecordBatch batch not None, int64_t first_offset):
        """Note the records of a batch.

        Args:
            batch: Its records are above those that were noted before.
            first_offset: Records below it are skipped.

        Returns:
            False when there was no room for one of them; those before it were noted.

        Raises:
            CorruptRecord: The records are malformed; of those before the fault the last may not
                have been noted.
            MemoryError: There is no memory for the slots.
        """
        cdef RecordIterator records = batch._iterate(False)
        cdef RecordFields fields
        cdef Slot[AHEAD] hashed
        cdef int64_t offset
        cdef int pending = 0
        cdef int32_t count = records._batch.record_count
        self._allocate()
        while records._index < count:
            records._read(&fields)
            offset = records._batch.base_offset + fields.offset_delta
            if fields.key_length < 0 or offset < first_offset:
                continue
            self._hash(fields.key, fields.key_length, &hashed[pending])
            hashed[pending].above = offset + 1
            self._prefetch(&hashed[pending])
            pending += 1
            if pending == AHEAD:
                if not self._put_all(hashed, pending):
                    return False
                pending = 0
        if not self._put_all(hashed, pending):
            return False
        records._check_end()
        return True

    cdef bint _put_all(self, const Slot* hashed, int count) noexcept:
        cdef int index
        cdef Slot* place
        for index in range(count):
            if self._count >= self._keys_max:
                return False
            place = self._place(&hashed[index])
            self._count += place.above == 0
            place[0] = hashed[index]
            self.latest_offset = hashed[index].above - 1
        return True

    def get(self, bytes key not None):
        """Look a key up.

        Args:
            key: Bytes.

        Returns:
            Its newest offset; -1 of a key that is not in the map.
        """
        cdef Slot hashed
        self._allocate()
        self._hash(<const uint8_t*>key, len(key), &hashed)
        return self._place(&hashed).above - 1

    def pass_over(self, int64_t last_offset):
        """Note that all records up to an offset were looked at; some offsets have no record.

        Args:
            last_offset: A lower one than `latest_offset` changes nothing.
        """
        self.latest_offset = max(self.latest_offset, last_offset)

    cdef int _allocate(self) except -1:
        if self._slots == NULL:
            self._slots = <Slot*>PyMem_RawCalloc(self._slot_count, sizeof(Slot))
            if self._slots == NULL:
                raise MemoryError(
                    f"no memory for the {self._slot_count} slots of a compaction's offset map; "
                    "cleaner_dedupe_buffer_size says how many bytes they take")
        return 0

    cdef void _hash(self, const uint8_t* key, Py_ssize_t size, Slot* hashed) noexcept:
        """Fill in a key's hash."""
        siphash128(self._secret, key, size, &hashed.low, &hashed.high)

    cdef void _prefetch(self, const Slot* hashed) noexcept:
        """Let a key's first slot be loaded while something else is done."""
        prefetch_line(self._slots + scaled(hashed.low, self._slot_count))

    cdef Slot* _place(self, const Slot* hashed) noexcept:
        """Find a key's slot, or the free one that it would get."""
        cdef Slot* at = self._slots + scaled(hashed.low, self._slot_count)
        cdef Slot* end = self._slots + self._slot_count
        while at.above != 0 and (at.low != hashed.low or at.high != hashed.high):
            at += 1
            if at == end:
                at = self._slots
        return at


cdef int _load_key(uint64_t* words, bytes secret) except -1:
    if len(secret) != <Py_ssize_t>SIPHASH_KEY_BYTES:
        raise ValueError(
            f"the secret has {len(secret)} bytes, must have {<int>SIPHASH_KEY_BYTES}")
    words[0] = load_little64(secret)
    words[1] = load_little64(<const uint8_t*>secret + 8)
    return 0


def siphash(bytes secret not None, bytes data not None):
    """Hash bytes as a map does.

    Args:
        secret: 16 bytes.
        data: Any bytes.

    Returns:
        The hash of 128 bits, little-endian.

    Raises:
        ValueError: The secret does not have 16 bytes.
    """
    cdef uint64_t[2] words
    cdef uint64_t low, high
    _load_key(words, secret)
    siphash128(words, data, len(data), &low, &high)
    return (low | <object>high << 64).to_bytes(16, "little")
