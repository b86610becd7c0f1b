"""The timing wheel: where tasks are put, when their buckets come up, rejected tasks."""

import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from kprod._core.timer.timer_task import TimerTask
from kprod._core.timer.wheel import TimingWheel
from kprod._core.timer.wheel_level import WheelLevel

if TYPE_CHECKING:
    from collections.abc import Callable

INT64_MAX = 2**63 - 1


def nothing() -> None:
    """Do nothing."""


def levels(wheel: TimingWheel) -> list[WheelLevel]:
    """All levels made so far, the lowest first."""
    found: list[WheelLevel] = []
    level: WheelLevel | None = wheel.lowest
    while level is not None:
        found.append(level)
        level = level.overflow_wheel
    return found


def drain(wheel: TimingWheel) -> list[TimerTask]:
    """Take out the due tasks."""
    return list(iter(wheel.pop_due, None))


def test_levels_span_20_ms_to_53_minutes() -> None:
    """Each level's tick is the whole interval of the one below."""
    wheel = TimingWheel(0)
    wheel.schedule(3_199_999, nothing)
    assert [(level.tick_ms, level.interval_ms) for level in levels(wheel)] == [
        (1, 20),
        (20, 400),
        (400, 8_000),
        (8_000, 160_000),
        (160_000, 3_200_000),
    ]


def test_levels_are_made_when_first_needed() -> None:
    """19 ms fit the lowest level, 20 ms need the second, 400 ms the third."""
    wheel = TimingWheel(0)
    wheel.schedule(19, nothing)
    assert len(levels(wheel)) == 1
    wheel.schedule(20, nothing)
    assert len(levels(wheel)) == 2
    wheel.schedule(400, nothing)
    assert len(levels(wheel)) == 3


def test_task_of_350_ms_passes_through_level_two() -> None:
    """Bucket 17 of level two comes up at 340; bucket 10 of level one runs the task at 350."""
    wheel = TimingWheel(0)
    task = wheel.schedule(350, nothing)
    assert levels(wheel)[1].occupied() == [(17, 340, 1)]
    assert wheel.next_expiry_ms == 340
    assert wheel.advance(339) == 0
    assert levels(wheel)[1].occupied() == [(17, 340, 1)]
    assert wheel.advance(340) == 0
    assert levels(wheel)[1].occupied() == []
    assert wheel.lowest.occupied() == [(10, 350, 1)]
    assert wheel.next_expiry_ms == 350
    assert wheel.advance(349) == 0
    assert wheel.advance(350) == 1
    assert drain(wheel) == [task]


def test_ticks_of_a_second_share_a_bucket() -> None:
    """Among tasks due at 0, 1, 1 and 3 s one is due at once and two come up together."""
    wheel = TimingWheel(0, tick_ms=1_000, wheel_size=8)
    at_once, first, second, last = (wheel.schedule(ms, nothing) for ms in (0, 1_000, 1_000, 3_000))
    assert wheel.lowest.occupied() == [(1, 1_000, 2), (3, 3_000, 1)]
    assert drain(wheel) == [at_once]
    assert wheel.next_expiry_ms == 1_000
    assert wheel.advance(1_000) == 2
    assert drain(wheel) == [first, second]
    assert wheel.next_expiry_ms == 3_000
    assert wheel.advance(3_000) == 1
    assert drain(wheel) == [last]


def test_ticks_of_ten_seconds() -> None:
    """35, 36, 38 s share bucket 31–40; 100 s is in level two; 700 s falls from three to 691–700."""
    wheel = TimingWheel(0, tick_ms=10_000, wheel_size=8)
    early = [wheel.schedule(seconds * 1_000, nothing) for seconds in (35, 36, 38)]
    wheel.schedule(100_000, nothing)
    late = wheel.schedule(700_000, nothing)
    first, second, third = levels(wheel)
    assert (second.interval_ms, third.interval_ms) == (640_000, 5_120_000)
    assert first.occupied() == [(4, 40_000, 3)]
    assert second.occupied() == [(1, 80_000, 1)]
    assert third.occupied() == [(1, 640_000, 1)]
    assert wheel.advance(39_999) == 0
    assert wheel.advance(40_000) == 3
    assert drain(wheel) == early
    assert wheel.advance(640_000) == 1
    assert (second.occupied(), third.occupied()) == ([], [])
    assert first.occupied() == [(6, 700_000, 1)]
    drain(wheel)
    assert wheel.advance(699_999) == 0
    assert wheel.advance(700_000) == 1
    assert drain(wheel) == [late]


def test_bucket_is_used_again_a_turn_later() -> None:
    """Its expiration changes, and that change puts it on the queue again."""
    wheel = TimingWheel(0)
    wheel.schedule(7, nothing)
    assert wheel.lowest.occupied() == [(7, 7, 1)]
    wheel.advance(10)
    assert len(drain(wheel)) == 1
    wheel.schedule(17, nothing)
    assert wheel.lowest.occupied() == [(7, 27, 1)]
    assert wheel.next_expiry_ms == 27


def test_delivery_timeout_cascades_at_most_three_times() -> None:
    """A task of 120 s sits in level four and is moved down three times at most."""
    wheel = TimingWheel(12_345)
    wheel.schedule(120_000, nothing)
    moves = 0
    while wheel.advance(wheel.next_expiry_ms or 0) == 0:
        moves += 1
    assert len(levels(wheel)) == 4
    assert moves <= 3
    assert wheel.now_ms == 132_345


def test_expiration_is_rounded_up_to_a_tick() -> None:
    """With ticks of 10 ms a task of 1 ms waits for the tick's end: it may not be early."""
    wheel = TimingWheel(5, tick_ms=10)
    task = wheel.schedule(1, nothing)
    assert task.expiration_ms == 10
    assert wheel.advance(9) == 0
    assert wheel.advance(10) == 1


def test_wheel_does_not_move_within_a_tick_but_due_tasks_fire() -> None:
    """An advance of less than a tick leaves the levels, and hands over due tasks at once."""
    wheel = TimingWheel(20, tick_ms=10)
    task = wheel.schedule(0, nothing)
    wheel.advance(29)
    assert wheel.lowest.current_ms == 20
    assert drain(wheel) == [task]


def test_cancelled_bucket_wakes_nobody() -> None:
    """When all its tasks are cancelled, a bucket is no reason to wake up."""
    wheel = TimingWheel(0)
    task = wheel.schedule(5, nothing)
    later = wheel.schedule(9, nothing)
    assert task.cancel()
    assert wheel.next_expiry_ms == 9
    assert later.cancel()
    assert wheel.next_expiry_ms is None
    wheel.schedule(5, nothing)
    assert wheel.next_expiry_ms == 5


def test_emptied_bucket_may_be_used_again_before_it_comes_up() -> None:
    """A bucket whose tasks were cancelled is in the queue once, and works when filled again."""
    wheel = TimingWheel(0)
    wheel.schedule(5, nothing).cancel()
    task = wheel.schedule(5, nothing)
    assert wheel.lowest.occupied() == [(5, 5, 1)]
    assert wheel.advance(5) == 1
    assert drain(wheel) == [task]
    assert wheel.next_expiry_ms is None


def test_len_counts_due_tasks_that_were_not_taken() -> None:
    """A task is pending until it is fired or cancelled, wherever it waits."""
    wheel = TimingWheel(0)
    tasks = [wheel.schedule(ms, nothing) for ms in (0, 3, 30, 500)]
    assert len(wheel) == 4
    wheel.advance(3)
    assert len(wheel) == 4
    assert tasks[1].pending
    assert tasks[1].cancel()
    assert len(wheel) == 3
    assert drain(wheel) == [tasks[0]]
    assert len(wheel) == 2
    assert wheel.clear() == 2
    assert (len(wheel), wheel.next_expiry_ms) == (0, None)
    assert not any(task.pending for task in tasks)


def test_adding_again_moves_a_task() -> None:
    """A task added twice is there once, at the later wish."""
    wheel = TimingWheel(0)
    task = TimerTask(nothing)
    wheel.add(5, task)
    wheel.add(700, task)
    assert (len(wheel), task.expiration_ms) == (1, 700)
    wheel.add_at(3, task)
    assert (len(wheel), wheel.next_expiry_ms) == (1, 3)


def test_task_never_added() -> None:
    """A new task waits nowhere and can be cancelled."""
    task = TimerTask(nothing)
    assert (task.pending, task.expiration_ms, task.cancel()) == (False, -1, False)


@pytest.mark.parametrize("delay_ms", [0, -1, -(2**63), -(10**30)])
def test_negative_delay_is_due_at_once(delay_ms: int) -> None:
    """However negative, it fires with the next advance."""
    wheel = TimingWheel(1_000)
    task = TimerTask(nothing)
    wheel.add(delay_ms, task)
    assert (task.expiration_ms, wheel.next_expiry_ms) == (1_000, 1_000)
    wheel.add_at(delay_ms, task)
    assert (task.expiration_ms, len(wheel)) == (1_000, 1)
    assert drain(wheel) == [task]


def test_farthest_deadline_is_held() -> None:
    """The last instant that an int64 has room for, less one tick, is a deadline like any other."""
    wheel = TimingWheel(7)
    task = wheel.schedule(INT64_MAX - 1 - 7, nothing)
    wheel.advance(INT64_MAX - 2)
    assert (task.pending, wheel.next_expiry_ms) == (True, INT64_MAX - 1)
    assert wheel.advance(INT64_MAX - 1) == 1


@pytest.mark.parametrize("delay_ms", [INT64_MAX - 7, INT64_MAX, 2**63, 10**30])
def test_delay_beyond_int64_is_rejected(delay_ms: int) -> None:
    """The error names the delay and the limit, and a task that waits continues waiting."""
    wheel = TimingWheel(7)
    task = wheel.schedule(5, nothing)
    with pytest.raises(ValueError, match=f"delay_ms={delay_ms} .* at most {INT64_MAX - 1}"):
        wheel.add(delay_ms, task)
    with pytest.raises(ValueError, match="delay_ms"):
        wheel.schedule(delay_ms, nothing)
    with pytest.raises(ValueError, match="deadline_ms"):
        wheel.add_at(delay_ms + 7, task)
    assert (len(wheel), task.expiration_ms) == (1, 12)


def test_task_of_another_timer_is_rejected() -> None:
    """A task waits in one timer; it stays there."""
    first, second = TimingWheel(0), TimingWheel(0)
    task = first.schedule(5, nothing)
    with pytest.raises(ValueError, match="another timer"):
        second.add(1, task)
    assert (len(first), len(second), task.expiration_ms) == (1, 0, 5)
    task.cancel()
    second.add(1, task)
    assert (len(first), len(second)) == (0, 1)


@pytest.mark.parametrize("now_ms", [99, -1, -(10**30), INT64_MAX, 10**30])
def test_time_out_of_range_is_rejected(now_ms: int) -> None:
    """Time neither goes back nor leaves the int64; nothing pending is lost."""
    wheel = TimingWheel(100)
    wheel.schedule(5, nothing)
    with pytest.raises(ValueError, match="cannot advance"):
        wheel.advance(now_ms)
    assert (len(wheel), wheel.now_ms, wheel.next_expiry_ms) == (1, 100, 105)


@pytest.mark.parametrize(
    ("now_ms", "tick_ms", "wheel_size"),
    [
        (-1, 1, 20),
        (INT64_MAX, 1, 20),
        (0, 0, 20),
        (0, -1, 20),
        (0, 86_400_001, 20),
        (0, 1, 1),
        (0, 1, 65_537),
    ],
)
def test_arguments_out_of_range_are_rejected(now_ms: int, tick_ms: int, wheel_size: int) -> None:
    """Every argument of a wheel has its bounds."""
    with pytest.raises(ValueError, match=r"must be from|starts at"):
        TimingWheel(now_ms, tick_ms=tick_ms, wheel_size=wheel_size)


def test_wrong_types_are_rejected() -> None:
    """A delay is an int, a task a TimerTask, a callback callable."""
    wheel = TimingWheel(0)
    wrong: Callable[..., object] = wheel.add
    with pytest.raises(TypeError):
        wrong("5", TimerTask(nothing))
    with pytest.raises(TypeError):
        wrong(5, None)
    with pytest.raises(TypeError):
        wrong(5, nothing)
    with pytest.raises(TypeError, match="callable"):
        wheel.schedule(5, 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="callable"):
        TimerTask(None)  # type: ignore[arg-type]
    assert len(wheel) == 0


class Owner:
    """Something whose timer's task refers back to it."""

    def __init__(self) -> None:
        """Wait for a minute."""
        self.wheel = TimingWheel(0)
        self.task = self.wheel.schedule(60_000, self.expire)

    def expire(self) -> None:
        """Do nothing."""


def test_wheel_dropped_with_tasks_is_collected() -> None:
    """The cycle collector sees the tasks of a wheel, and frees both."""
    gone = weakref.ref(Owner())
    gc.collect()
    assert gone() is None
