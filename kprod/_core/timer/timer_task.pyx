# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""A timer's task, and what it waits in: a bucket of the wheel, or a list of what is due.

What costs time, when a million tasks wait and any of them is cancelled, is memory that is in no
near cache: first the task itself, then whatever its leaving writes to.

A bucket is a circular, doubly linked list of blocks, each full of bare pointers to tasks but for
the last. A task knows its place in a block, and the bucket's last task fills that place when it
goes. So leaving writes one pointer into memory ten times denser than the tasks themselves, where
links from task to task would be written into two other tasks, anywhere. The order within a bucket
means nothing: it is one tick, or will be spread over lower levels.

A list of what is due keeps the order of ticks, so there tasks are linked to one another, around a
sentinel. Both own a reference to each of their tasks, and show them to the cycle collector.

A dead task stays in the collector's list and lives again as the next one made. To take it out means
to write to its two neighbours there, as far away as all else.

Invariants.
    A task is in exactly one bucket or list, or in none; `_next` is NULL only then.
    All blocks of a bucket but the last are full, and that one is not empty, but between
    `bucket_reserve` and the `bucket_append` that follows at once.

Thread-safety: under the interpreter lock; nothing here lets go of it half way, except where a
callback is let go of.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject, PyTypeObject, destructor, inquiry, traverseproc, visitproc
from cpython.ref cimport Py_DECREF

cdef extern from *:
    """
    /* Where reference counts are not one plain number, dead tasks are freed as all objects are. */
    #if defined(Py_GIL_DISABLED) || defined(Py_REF_DEBUG) || defined(PYPY_VERSION)
    #define KPROD_KEEPS_DEAD_TASKS 0
    #else
    #define KPROD_KEEPS_DEAD_TASKS 1
    #endif
    #define kprod_allocator(type) ((type)->tp_alloc)
    #define kprod_set_allocator(type, allocator) ((type)->tp_alloc = (allocator))
    """
    const bint KEEPS_DEAD_TASKS "KPROD_KEEPS_DEAD_TASKS"
    ctypedef PyObject* (*allocfunc)(PyTypeObject* cls, Py_ssize_t count) noexcept
    allocfunc _allocator "kprod_allocator"(PyTypeObject* cls) noexcept
    void _set_allocator "kprod_set_allocator"(PyTypeObject* cls, allocfunc allocate) noexcept
    void Py_SET_REFCNT(PyObject* counted, Py_ssize_t count) noexcept
    Py_ssize_t Py_REFCNT(PyObject* counted) noexcept
    PyTypeObject* Py_TYPE(PyObject* typed) noexcept

cdef enum:
    NEVER = -1  # the expiration of a task never added
    KEPT_TASKS_MAX = 256


cdef class TimerTask:
    """Something to run when its time has come; it may be added again after it ran or was cancelled.

    A subclass may override `run` instead of giving a callback.

    Args:
        callback: Called without arguments; its result is ignored.

    Thread-safety: under the interpreter lock; in a `SystemTimer` any thread may cancel.
    """

    def __cinit__(self):
        self._expiration_ms = NEVER

    def __init__(self, callback):
        if not callable(callback):
            raise TypeError(f"callback must be callable, got {type(callback).__name__}")
        self.callback = callback

    @property
    def pending(self):
        """Whether the task waits in a timer."""
        return self._next != NULL

    @property
    def expiration_ms(self):
        """When it fires or fired, monotonic milliseconds, a whole tick; −1 if never added."""
        return self._expiration_ms

    cpdef bint cancel(self) noexcept:
        """Take the task out of its timer, at once; a task that does not wait is left as it is.

        Returns:
            Whether it was pending.
        """
        if self._next == NULL:
            return False
        self._count[0] -= 1
        self._count = NULL
        detach(self)
        Py_DECREF(self)  # the bucket's reference; the caller has its own
        return True

    cpdef object run(self):
        """Call the callback."""
        return self.callback()


# Dead tasks wait here for their next life, each with the one reference that this list is.
cdef PyObject* _kept_tasks[KEPT_TASKS_MAX]
cdef Py_ssize_t _kept_count = 0
cdef destructor _free_task = (<PyTypeObject*>TimerTask).tp_dealloc
cdef allocfunc _allocate_task = _allocator(<PyTypeObject*>TimerTask)


cdef void _keep_task(PyObject* task) noexcept:
    """End a task's life; if there is room to keep it, without a word to the cycle collector."""
    global _kept_count
    if Py_TYPE(task) != <PyTypeObject*>TimerTask or _kept_count >= KEPT_TASKS_MAX:
        _free_task(task)
        return
    Py_SET_REFCNT(task, 1)
    # What this lets go of may run anything, so that only then the task is there to be taken.
    (<TimerTask>task).callback = None
    if _kept_count < KEPT_TASKS_MAX:
        _kept_tasks[_kept_count] = task
        _kept_count += 1
    else:
        Py_SET_REFCNT(task, 0)
        _free_task(task)


cdef PyObject* _reuse_task(PyTypeObject* cls, Py_ssize_t count) noexcept:
    """Memory of a new task: one that is kept, or else new.

    Compiled subclasses inherit this, and are larger.
    """
    global _kept_count
    cdef PyObject* task
    while _kept_count > 0 and cls == <PyTypeObject*>TimerTask:
        _kept_count -= 1
        task = _kept_tasks[_kept_count]
        # Whoever asks the collector for all objects can get hold of a task that is kept.
        if Py_REFCNT(task) == 1:
            Py_DECREF(None)  # its callback: whoever allocates writes over what is there
            return task
        Py_SET_REFCNT(task, Py_REFCNT(task) - 1)
    return _allocate_task(cls, count)


if KEEPS_DEAD_TASKS:
    (<PyTypeObject*>TimerTask).tp_dealloc = <destructor>_keep_task
    _set_allocator(<PyTypeObject*>TimerTask, _reuse_task)


cdef int add_block(Bucket* bucket) except -1:
    """Put an empty block last."""
    cdef TaskBlock* block = <TaskBlock*>PyMem_Malloc(sizeof(TaskBlock))
    if block == NULL:
        raise MemoryError("no memory for a timer's bucket")
    if bucket.last == NULL:
        block.previous = block
        block.next = block
    else:
        block.previous = bucket.last
        block.next = bucket.last.next
        block.next.previous = block
        bucket.last.next = block
    bucket.last = block
    bucket.last_count = 0
    return 0


cdef void drop_last_block(Bucket* bucket) noexcept:
    cdef TaskBlock* block = bucket.last
    if block.next == block:
        bucket.last = NULL
        bucket.last_count = 0
    else:
        block.previous.next = block.next
        block.next.previous = block.previous
        bucket.last = block.previous
        bucket.last_count = BLOCK_TASKS
    PyMem_Free(block)


cdef void drop_blocks(Bucket* bucket) noexcept:
    """Forget all tasks of a bucket; they have gone elsewhere."""
    while bucket.last != NULL:
        drop_last_block(bucket)


cdef Py_ssize_t tasks_in(const Bucket* bucket) noexcept:
    cdef Py_ssize_t count = bucket.last_count
    cdef const TaskBlock* block
    if bucket.last == NULL:
        return 0
    block = bucket.last.next
    while block != bucket.last:
        count += BLOCK_TASKS
        block = block.next
    return count


cdef void bucket_forget_until(Bucket* bucket, TaskBlock* block, Py_ssize_t place) noexcept:
    """Fill the places before this one, whose tasks have gone elsewhere, with the tasks behind."""
    while True:
        while place > 0:
            place -= 1
            bucket_remove(bucket, &block.tasks[place])
        if bucket_is_empty(bucket) or block == bucket.last.next:
            return
        block = block.previous
        place = BLOCK_TASKS


@cython.no_gc_clear
cdef class TimerTaskList:
    """Tasks in the order in which they were added, linked around a sentinel."""

    def __cinit__(self):
        cdef TimerTask sentinel = TimerTask.__new__(TimerTask)
        sentinel._prev = <void*>sentinel
        sentinel._next = <void*>sentinel
        self._sentinel = sentinel

    def __dealloc__(self):
        if self._sentinel is not None:
            self._cancel_all()
            self._sentinel._prev = NULL
            self._sentinel._next = NULL

    cdef bint _is_empty(self) noexcept:
        return self._sentinel._next == <void*>self._sentinel

    cdef TimerTask _first(self):
        return <TimerTask>self._sentinel._next

    cdef void _append(self, TimerTask task) noexcept:
        """Link a task that is nowhere; the caller hands over a reference."""
        cdef TimerTask sentinel = self._sentinel
        task._prev = sentinel._prev
        task._next = <void*>sentinel
        (<TimerTask>sentinel._prev)._next = <void*>task
        sentinel._prev = <void*>task

    cdef void _take_all(self, TimerTaskList other) noexcept:
        """Move all tasks of another list behind those of this one, in their order."""
        cdef TimerTask task
        while not other._is_empty():
            task = other._first()
            detach(task)
            self._append(task)

    cdef void _cancel_all(self) noexcept:
        cdef TimerTask task
        while not self._is_empty():
            task = self._first()
            TimerTask.cancel(task)


cdef traverseproc _traverse_fields = (<PyTypeObject*>TimerTaskList).tp_traverse


cdef int _traverse_list(PyObject* tasks, visitproc visit, void* argument) noexcept:
    """Show the collector the tasks of a list, which its bare pointers hide."""
    cdef TimerTask sentinel = (<TimerTaskList>tasks)._sentinel
    cdef int stopped = _traverse_fields(tasks, visit, argument)
    cdef void* linked
    if stopped or sentinel is None:
        return stopped
    linked = sentinel._next
    while linked != <void*>sentinel:
        stopped = visit(<PyObject*>linked, argument)
        if stopped:
            return stopped
        linked = (<TimerTask>linked)._next
    return 0


cdef int _clear_list(PyObject* tasks) noexcept:
    """Let go of the tasks of a list that is garbage."""
    (<TimerTaskList>tasks)._cancel_all()
    return 0


(<PyTypeObject*>TimerTaskList).tp_traverse = <traverseproc>_traverse_list
(<PyTypeObject*>TimerTaskList).tp_clear = <inquiry>_clear_list
