# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""A timer's task, and the two containers of tasks: a bucket of the wheel, or a list of due tasks.

When a million tasks are pending and any of them is cancelled, the time goes into memory that is in
no near cache: first the task itself, then the memory that its removal writes to.

A bucket is a circular, doubly linked list of blocks, which hold bare pointers to tasks; all but the
last are full. A task knows its place in a block, and on its removal the bucket's last task fills
that place. So a removal writes one pointer into memory ten times denser than the tasks themselves;
with links from task to task it would write into two other tasks, anywhere. The order within a
bucket means nothing: a bucket is one tick, or will be spread over lower levels.

A list of due tasks keeps the order of ticks, so its tasks are linked to one another, around a
sentinel. Both containers own a reference to each of their tasks, and show them to the garbage
collector.

A dead task, to which only the list of dead tasks refers, stays in the garbage collector's list and
is reused as the next new task. Removing it from the collector's list would write to the objects
before and after it, which are in no near cache either.

Invariants.
    A task is in exactly one bucket or list, or in none; `_next` is NULL only then.
    All blocks of a bucket but the last are full, and the last is not empty, except between
    `bucket_reserve` and the `bucket_append` that follows at once.

Thread-safety: with the GIL held; nothing here releases it in the middle of a change, except where
a callback is freed.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject, PyTypeObject, destructor, inquiry, traverseproc, visitproc
from cpython.ref cimport Py_DECREF

cdef extern from *:
    """
    /* Dead tasks are kept only where a reference count is one plain number; else they are freed. */
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
    NEVER = -1  # the expiration of a task that was never added
    KEPT_TASKS_MAX = 256


cdef class TimerTask:
    """A callback to run at a deadline; it may be added again after it has run or was cancelled.

    A subclass may override `run` instead of giving a callback.

    Args:
        callback: Called without arguments; its result is ignored.

    Thread-safety: with the GIL held; in a `SystemTimer` any thread may cancel.
    """

    def __cinit__(self):
        self._expiration_ms = NEVER

    def __init__(self, callback):
        if not callable(callback):
            raise TypeError(f"callback must be callable, got {type(callback).__name__}")
        self.callback = callback

    @property
    def pending(self):
        """Whether the task is in a timer."""
        return self._next != NULL

    @property
    def expiration_ms(self):
        """Time at which it fires or fired, monotonic ms, a whole tick; −1 if never added."""
        return self._expiration_ms

    cpdef bint cancel(self) noexcept:
        """Remove the task from its timer immediately; does nothing if it is not pending.

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


# Dead tasks kept for reuse, each with one reference, which is this list's.
cdef PyObject* _kept_tasks[KEPT_TASKS_MAX]
cdef Py_ssize_t _kept_count = 0
cdef destructor _free_task = (<PyTypeObject*>TimerTask).tp_dealloc
cdef allocfunc _allocate_task = _allocator(<PyTypeObject*>TimerTask)


cdef void _keep_task(PyObject* task) noexcept:
    """Keep a dead task for reuse, without untracking it; free it if too many are kept already."""
    global _kept_count
    if Py_TYPE(task) != <PyTypeObject*>TimerTask or _kept_count >= KEPT_TASKS_MAX:
        _free_task(task)
        return
    Py_SET_REFCNT(task, 1)
    # Freeing the callback may run any code, so the task becomes available only afterwards.
    (<TimerTask>task).callback = None
    if _kept_count < KEPT_TASKS_MAX:
        _kept_tasks[_kept_count] = task
        _kept_count += 1
    else:
        Py_SET_REFCNT(task, 0)
        _free_task(task)


cdef PyObject* _reuse_task(PyTypeObject* cls, Py_ssize_t count) noexcept:
    """Return the memory of a new task: a kept task's, or newly allocated.

    Compiled subclasses inherit this function, and are larger.
    """
    global _kept_count
    cdef PyObject* task
    while _kept_count > 0 and cls == <PyTypeObject*>TimerTask:
        _kept_count -= 1
        task = _kept_tasks[_kept_count]
        # Code that asks the garbage collector for all objects can get a reference to a kept task.
        if Py_REFCNT(task) == 1:
            Py_DECREF(None)  # the kept task's callback, which the new task's allocation overwrites
            return task
        Py_SET_REFCNT(task, Py_REFCNT(task) - 1)
    return _allocate_task(cls, count)


if KEEPS_DEAD_TASKS:
    (<PyTypeObject*>TimerTask).tp_dealloc = <destructor>_keep_task
    _set_allocator(<PyTypeObject*>TimerTask, _reuse_task)


cdef int add_block(Bucket* bucket) except -1:
    """Append an empty block."""
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
    """Free all blocks of a bucket, whose tasks have been moved elsewhere."""
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
    """Fill the places before this one, whose tasks have been moved, with the bucket's last ones."""
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
        """Link a task that is in no container; the caller passes a reference on."""
        cdef TimerTask sentinel = self._sentinel
        task._prev = sentinel._prev
        task._next = <void*>sentinel
        (<TimerTask>sentinel._prev)._next = <void*>task
        sentinel._prev = <void*>task

    cdef void _take_all(self, TimerTaskList other) noexcept:
        """Append all tasks of another list, in their order."""
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
    """Show the garbage collector the tasks of a list, which are hidden behind bare pointers."""
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
    """Release the tasks of a list that is garbage."""
    (<TimerTaskList>tasks)._cancel_all()
    return 0


(<PyTypeObject*>TimerTaskList).tp_traverse = <traverseproc>_traverse_list
(<PyTypeObject*>TimerTaskList).tp_clear = <inquiry>_clear_list
