# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The work of a purgatory for each operation: adding it to lists, removing it, completing it.

Every request of a broker that has to wait passes through here, and the next event completes most of
them, so this work is the cost of a purgatory. An operation knows the lists it is in, and leaves
each by one look-up; lists are dicts by `id`, so that they keep the order of arrival.

Invariants.
    A list holds an operation only while it is not completed, and the operation knows that list.
    A key's list is only added to while the map holds it: both happen under the shard's lock.

Thread-safety: any thread. An operation's `lock` guards it; a shard's lock guards its map, and
adding to one of its lists. Leaving a list takes no lock, since one dict operation is atomic.
Source: Kafka's DelayedOperation.java and DelayedOperationPurgatory.java (server-common, 4.x).
"""

from cpython.dict cimport PyDict_Contains, PyDict_DelItem
from cpython.long cimport PyLong_FromVoidPtr
from cpython.pythread cimport (
    NOWAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_release_lock,
    WAIT_LOCK,
)

from kprod._core.timer.timer_task cimport TimerTask

from _thread import RLock

cdef enum:
    # More locks than threads that take them would only cost memory.
    SHARDS_MAX = 65_536


cdef class WatchedTask(TimerTask):
    """A timer's task that is kept in lists until it is completed, once.

    Attributes:
        delay_ms: Maximum wait.
        lock: Guards it, re-entrant.
        completed: Whether it has been completed.

    Args:
        delay_ms: Delay in milliseconds; validated by the timer.
        lock: The lock; None creates one.

    Thread-safety: any thread.
    """

    def __init__(self, delay_ms, *, lock=None):
        self.delay_ms = delay_ms
        self.lock = RLock() if lock is None else lock
        self._places = []

    def on_complete(self):
        """Carry out the completion; called once, with the lock held."""
        raise NotImplementedError

    def on_expire(self):
        """Carry out an expiry; called after `on_complete`, only if the timeout expired."""

    def force_complete(self):
        """Complete it now, whatever its condition.

        Returns:
            Whether this call completed it; False if it was completed before.
        """
        with self.lock:
            if self.completed:
                return False
            self.completed = True
            TimerTask.cancel(self)
            self.leave_places()
            self.on_complete()
        return True

    cpdef object run(self):
        """Expire; the timer calls this."""
        with self.lock:
            if self.force_complete():
                self.on_expire()

    def enter(self, dict place not None) -> None:
        """Enter a dict, under its `id`, until it is completed. The caller holds the lock."""
        place[PyLong_FromVoidPtr(<void*>self)] = self
        self._places.append(place)

    def leave(self) -> None:
        """Leave all lists."""
        self.leave_places()

    cdef int leave_places(self) except -1:
        cdef list places = self._places
        cdef dict place
        if not places:
            return 0
        # Replaced first: removing entries cannot run other code, but another thread may read this.
        self._places = []
        token = PyLong_FromVoidPtr(<void*>self)
        for place in places:
            if PyDict_Contains(place, token) == 1:
                PyDict_DelItem(place, token)
        return 0


cdef class WatchShard:
    """Some of the keys: a lock, and a map from each key to the operations that watch it."""

    def __cinit__(self):
        self.lists = {}
        self._lock = PyThread_allocate_lock()
        if self._lock == NULL:
            raise MemoryError("no memory for the lock of a shard")

    def __dealloc__(self):
        if self._lock != NULL:
            PyThread_free_lock(self._lock)

    cdef void acquire(self) noexcept:
        if not PyThread_acquire_lock(self._lock, NOWAIT_LOCK):
            with nogil:
                PyThread_acquire_lock(self._lock, WAIT_LOCK)

    cdef void release(self) noexcept:
        PyThread_release_lock(self._lock)


cdef class WatchLists:
    """The operations that watch each key.

    A shard is made for the first operation in it: 512 of them took a millisecond of each start.

    Attributes:
        added_count: Operations added; `purge` resets it to those that are still delayed.

    Args:
        shard_count: Number of locks that the keys share; at least 1.

    Thread-safety: any thread.
    """

    def __cinit__(self, Py_ssize_t shard_count):
        if not 1 <= shard_count <= SHARDS_MAX:
            raise ValueError(f"shard_count must be from 1 to {SHARDS_MAX}, got {shard_count}")
        self._shards = {}
        self._shard_count = shard_count

    cdef object _position_of(self, object key):
        cdef Py_ssize_t position = hash(key) % self._shard_count
        return position if position >= 0 else position + self._shard_count

    cdef WatchShard _shard_of(self, object key):
        return self._shards.get(self._position_of(key))

    cdef WatchShard _new_shard_of(self, object key):
        position = self._position_of(key)
        shard = self._shards.get(position)
        # One dict operation chooses between the shards that several threads make.
        return self._shards.setdefault(position, WatchShard()) if shard is None else shard

    def add(self, WatchedTask operation not None, keys):
        """Put an operation into the lists of its keys, one after the other, until it is completed.

        Args:
            operation: The caller holds its lock.
            keys: Hashable objects; the code that yields them may complete the operation.

        Returns:
            Whether there was a key, or the operation was completed while the keys were read.
        """
        cdef WatchShard shard
        cdef dict watching
        for key in keys:
            if operation.completed:
                return True
            shard = self._new_shard_of(key)
            shard.acquire()
            try:
                watching = shard.lists.get(key)
                if watching is None:
                    watching = shard.lists[key] = {}
                operation.enter(watching)
            finally:
                shard.release()
        if not operation._places:
            return operation.completed
        self.added_count += 1
        return True

    def watching(self, key):
        """Return the operations that watch a key, in order of arrival.

        Returns:
            A list; None if the key has none, not even an empty one.
        """
        cdef WatchShard shard = self._shard_of(key)
        cdef dict watching
        if shard is None:
            return None
        shard.acquire()
        try:
            watching = shard.lists.get(key)
            return None if watching is None else list(watching.values())
        finally:
            shard.release()

    def drop_if_empty(self, key) -> None:
        """Forget a key, unless an operation watches it."""
        cdef WatchShard shard = self._shard_of(key)
        if shard is None:
            return
        shard.acquire()
        try:
            if not shard.lists.get(key, True):
                del shard.lists[key]
        finally:
            shard.release()

    def watched_keys(self) -> list:
        """Return all keys that have a list, empty or not."""
        cdef WatchShard shard
        cdef list found = []
        for shard in list(self._shards.values()):
            found += list(shard.lists)
        return found

    @property
    def entry_count(self):
        """Number of entries in all lists."""
        cdef WatchShard shard
        cdef Py_ssize_t count = 0
        for shard in list(self._shards.values()):
            for watching in list(shard.lists.values()):
                count += len(<dict>watching)
        return count
