# The functions that run for each task are defined here, so that each module inlines them.

from libc.stdint cimport int64_t


cdef enum:
    # With its two links a block has 512 bytes, the most that Python's small-object allocator gives.
    BLOCK_TASKS = 62
    # A flag in a task's `_prev`: without it, this is the address of a Bucket, which is even.
    IN_BUCKET = 1


cdef class TimerTask:
    # In a bucket: `_next` is the place in a block that holds the task, and `_prev` the bucket, with
    # IN_BUCKET. In a list: the next and the previous task. Otherwise both are NULL.
    cdef void* _prev
    cdef void* _next
    # The number of tasks in its wheel; NULL outside any. The address also identifies the wheel.
    cdef Py_ssize_t* _count
    cdef int64_t _expiration_ms
    cdef readonly object callback

    cpdef bint cancel(self) noexcept
    cpdef object run(self)


cdef class TimerTaskList:
    cdef TimerTask _sentinel

    cdef bint _is_empty(self) noexcept
    cdef TimerTask _first(self)
    cdef void _append(self, TimerTask task) noexcept
    cdef void _take_all(self, TimerTaskList other) noexcept
    cdef void _cancel_all(self) noexcept


cdef struct TaskBlock:
    TaskBlock* previous
    TaskBlock* next
    void* tasks[BLOCK_TASKS]


cdef struct Bucket:
    TaskBlock* last  # NULL when empty; its `next` is the first
    Py_ssize_t last_count  # tasks in the last block; all others are full
    int64_t expiration_ms


cdef int add_block(Bucket* bucket) except -1
cdef void drop_last_block(Bucket* bucket) noexcept
cdef void drop_blocks(Bucket* bucket) noexcept
cdef void bucket_forget_until(Bucket* bucket, TaskBlock* block, Py_ssize_t place) noexcept
cdef Py_ssize_t tasks_in(const Bucket* bucket) noexcept


cdef inline bint bucket_is_empty(const Bucket* bucket) noexcept:
    return bucket.last == NULL


# Allocate space for one more task, so that `bucket_append` cannot fail.
cdef inline int bucket_reserve(Bucket* bucket) except -1:
    if bucket.last == NULL or bucket.last_count == BLOCK_TASKS:
        return add_block(bucket)
    return 0


cdef inline void* in_bucket(Bucket* bucket) noexcept:
    return <void*>(<size_t>bucket | IN_BUCKET)


cdef inline void bucket_append(Bucket* bucket, TimerTask task) noexcept:
    cdef void** place = &bucket.last.tasks[bucket.last_count]
    place[0] = <void*>task
    bucket.last_count += 1
    task._next = place
    task._prev = in_bucket(bucket)


# The bucket's last task takes the place of the removed one. It was added recently, so it is in a
# near cache; only the place is in far memory, and it is written and not read.
cdef inline void bucket_remove(Bucket* bucket, void** place) noexcept:
    cdef void* moved
    bucket.last_count -= 1
    moved = bucket.last.tasks[bucket.last_count]
    place[0] = moved
    (<TimerTask>moved)._next = place
    if bucket.last_count == 0:
        drop_last_block(bucket)


# Remove a task from its bucket or list; the caller takes over the reference.
cdef inline void detach(TimerTask task) noexcept:
    cdef size_t prev = <size_t>task._prev
    if prev & IN_BUCKET:
        bucket_remove(<Bucket*>(prev - IN_BUCKET), <void**>task._next)
    else:
        (<TimerTask>task._prev)._next = task._next
        (<TimerTask>task._next)._prev = task._prev
    task._prev = NULL
    task._next = NULL
