"""Tasks of a timer: buckets of many blocks, and the remains of a finished task."""

import gc
import random
import weakref

import pytest

from kprod._core.timer.timer_task import TimerTask
from kprod._core.timer.watch_lists import WatchedTask
from kprod._core.timer.wheel import TimingWheel


def nothing() -> None:
    """Be a callback."""


class Expiring(TimerTask):
    """A task that notes its turn."""

    __slots__ = ("due_ms", "fired")

    def __init__(self, due_ms: int, fired: list[int]) -> None:
        """Note it in that list."""
        super().__init__(nothing)
        self.due_ms = due_ms
        self.fired = fired

    def run(self) -> None:
        """Note it."""
        self.fired.append(self.due_ms)


def fail(_task: TimerTask, error: BaseException) -> None:
    """No task here may fail."""
    raise error


@pytest.mark.parametrize("delay_ms", [5, 350, 5_000, 100_000])
@pytest.mark.parametrize("count", [1, 61, 62, 63, 124, 125, 500])
def test_a_bucket_of_many_tasks(count: int, delay_ms: int) -> None:
    """Whatever is taken out of a bucket, in whatever order, the others fire once, in time."""
    rng = random.Random(count * delay_ms)
    wheel, fired = TimingWheel(0), list[int]()
    tasks = [Expiring(delay_ms, fired) for _ in range(count)]
    for task in tasks:
        wheel.add(delay_ms, task)
    gone = rng.sample(tasks, count // 2)
    assert all(task.cancel() for task in gone)
    assert len(wheel) == count - len(gone)
    for task in gone[: count // 4]:
        wheel.add(delay_ms, task)
    for task in rng.sample(tasks, count // 3):
        wheel.add(delay_ms, task)
    left = sum(task.pending for task in tasks)
    assert sum(held for _, _, held in _occupied(wheel)) == len(wheel) == left
    while wheel.now_ms < delay_ms - 1:
        wheel.advance(min(wheel.next_expiry_ms or delay_ms, delay_ms - 1))
        wheel.fire(fail)
    assert fired == []
    wheel.advance(delay_ms)
    wheel.fire(fail)
    assert fired == [delay_ms] * left
    assert len(wheel) == 0


def _occupied(wheel: TimingWheel) -> list[tuple[int, int, int]]:
    found, level = [], wheel.lowest
    while level is not None:
        found += level.occupied()
        level = level.overflow_wheel  # type: ignore[assignment]
    return found


def test_moving_between_buckets_of_many_tasks() -> None:
    """A task that is added again is in its new bucket only, and no other task is lost by that."""
    rng = random.Random(7)
    wheel, fired = TimingWheel(0), list[int]()
    tasks = [Expiring(0, fired) for _ in range(300)]
    for _ in range(3_000):
        task = rng.choice(tasks)
        task.due_ms = rng.choice((7, 8, 300, 310, 9_000))
        wheel.add(task.due_ms, task)
    left = sum(task.pending for task in tasks)
    assert len(wheel) == left
    for now_ms in sorted({task.due_ms for task in tasks if task.pending}):
        wheel.advance(now_ms)
        wheel.fire(fail)
        assert {due for due in fired if due > now_ms} == set()
    assert len(fired) == left
    assert fired == sorted(fired)


def test_cancelling_all_of_a_wheel_and_adding_again() -> None:
    """An emptied bucket takes tasks again."""
    wheel, fired = TimingWheel(0), list[int]()
    for _ in range(3):
        for _ in range(200):
            wheel.add(1_000, Expiring(1_000, fired))
        assert wheel.clear() == 200
    wheel.add(1_000, Expiring(1_000, fired))
    wheel.advance(1_000)
    wheel.fire(fail)
    assert fired == [1_000]


class Owner:
    """Something that a callback refers to."""

    def call(self) -> None:
        """Be a callback."""


def test_a_dead_task_lets_go_of_its_callback() -> None:
    """At once, though its memory is kept."""
    owner = Owner()
    gone = weakref.ref(owner)
    task = TimerTask(owner.call)
    del owner
    assert gone() is not None
    del task
    assert gone() is None


def test_a_new_task_knows_nothing_of_the_one_before() -> None:
    """It is as new, whatever the memory held."""
    wheel = TimingWheel(0)
    wheel.schedule(30, nothing).cancel()
    task = TimerTask(nothing)
    assert (task.pending, task.expiration_ms) == (False, -1)
    assert task.callback is nothing


def test_a_dead_task_that_somebody_found_is_not_used_again() -> None:
    """Code that asks the collector for all objects may get hold of one."""
    del (tasks := [TimerTask(nothing) for _ in range(10)])[:]
    found = [each for each in gc.get_objects() if type(each) is TimerTask]
    fresh = [TimerTask(nothing) for _ in range(300)]
    assert {id(task) for task in found}.isdisjoint(map(id, fresh))
    assert tasks == []


def test_many_tasks_die_at_once() -> None:
    """More than are kept; and more are made than were kept."""
    for _ in range(3):
        tasks = [TimerTask(nothing) for _ in range(1_000)]
        assert len({id(task) for task in tasks}) == 1_000
        del tasks


class Adding:
    """A callback whose end makes a task."""

    def __init__(self, made: list[TimerTask]) -> None:
        """Put it into that list."""
        self.made = made

    def __call__(self) -> None:
        """Be a callback."""

    def __del__(self) -> None:
        """Make a task."""
        self.made.append(TimerTask(nothing))


def test_a_task_is_made_while_another_dies() -> None:
    """The one that dies is not the one that is made."""
    made: list[TimerTask] = []
    for _ in range(600):
        TimerTask(Adding(made))
    assert len({id(task) for task in made}) == 600
    assert all(task.callback is nothing for task in made)


def test_a_compiled_subclass_is_not_made_of_a_dead_task() -> None:
    """The memory kept of dead tasks is too small for it, and of another type."""
    dead = [TimerTask(nothing) for _ in range(10)]
    dead.clear()

    made = WatchedTask(5)

    assert type(made) is WatchedTask
    assert made.delay_ms == 5
