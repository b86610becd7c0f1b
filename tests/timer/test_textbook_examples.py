"""The worked examples by which the timing wheel and the purgatory are taught, with their numbers.

If a text is wrong, the test says so: the expected values are those of the algorithm.
"""

import pytest

from kprod._core.timer.wheel import TimingWheel
from kprod._core.timer.wheel_level import WheelLevel
from kprod.timer import DelayedOperation, Purgatory, Timer

Occupied = list[tuple[int, int, int]]
"""Each bucket in use: its index, the instant at which it comes up, how many tasks it holds."""


def _nothing() -> None:
    """An empty callback."""


def _wheel(*instants: int, now: int = 0, tick: int = 1, size: int = 20) -> TimingWheel:
    """A wheel at an instant with a task for each of the others."""
    wheel = TimingWheel(now, tick_ms=tick, wheel_size=size)
    for instant in instants:
        wheel.schedule(instant - now, _nothing)
    return wheel


def _levels(wheel: TimingWheel) -> list[WheelLevel]:
    """All levels, the lowest first."""
    found: list[WheelLevel] = []
    level: WheelLevel | None = wheel.lowest
    while level is not None:
        found.append(level)
        level = level.overflow_wheel
    return found


def _occupied(wheel: TimingWheel) -> list[Occupied]:
    """The buckets in use, level by level."""
    return [level.occupied() for level in _levels(wheel)]


def _due(wheel: TimingWheel) -> int:
    return sum(1 for _ in iter(wheel.pop_due, None))


def test_tasks_of_one_tick_share_a_cell() -> None:
    """Tick 10 s: deadlines are rounded up, so that nothing is early; a cell ends at its instant."""
    seconds = (12, 18, 35, 36, 38, 53, 54, 62, 65, 69)
    wheel = _wheel(*(1_000 * second for second in seconds), tick=10_000)
    ((*cells,),) = _occupied(wheel)
    assert [(starts_ms // 1_000, count) for _, starts_ms, count in cells] == [
        (20, 2),
        (40, 3),
        (60, 2),
        (70, 3),
    ]


@pytest.mark.parametrize(("delay_ms", "level", "slot", "tick_ms"), [(2, 0, 2, 1), (200, 1, 10, 20)])
def test_a_delay_has_its_level_and_slot(delay_ms: int, level: int, slot: int, tick_ms: int) -> None:
    """Tick 1 ms and 20 slots: 2 ms lie in the lowest level, 200 ms in the one above."""
    wheel = _wheel(delay_ms)
    assert _levels(wheel)[level].tick_ms == tick_ms
    assert _occupied(wheel)[level] == [(slot, delay_ms, 1)]


@pytest.mark.parametrize(("expiration_ms", "level", "slot"), [(20, 0, 0), (21, 1, 1)])
def test_a_slot_is_used_again_when_its_time_is_over(
    expiration_ms: int, level: int, slot: int
) -> None:
    """At time 1 slot 0 is free: 20 goes there; 21 does not fit, since 21 < 1 + 20 is false."""
    wheel = _wheel(expiration_ms, now=1)
    assert _occupied(wheel)[level] == [(slot, 20, 1)]


def test_cells_of_two_levels_come_up_together() -> None:
    """At time 20: one task is due; two that share a cell of level two go down to level one."""
    wheel = _wheel(20, 25, 39, now=1)
    assert _occupied(wheel) == [[(0, 20, 1)], [(1, 20, 2)]]
    assert wheel.advance(19) == 0
    assert wheel.advance(20) == 1
    assert _due(wheel) == 1
    assert _occupied(wheel) == [[(5, 25, 1), (19, 39, 1)], []]


def test_a_clock_of_seconds_minutes_and_hours() -> None:
    """60 × 1 s and 60 × 60 s: each deadline in the hand that shows it."""
    wheel = _wheel(20, 60, 70, 120, 3_600, size=60)
    seconds, minutes, hours = _occupied(wheel)
    assert [(slot, count) for slot, _, count in seconds] == [(20, 1)]
    assert [(slot, count) for slot, _, count in minutes] == [(1, 2), (2, 1)]
    assert [(slot, count) for slot, _, count in hours] == [(1, 1)]


@pytest.mark.parametrize(
    ("lowest_tick_ms", "tick_ms", "span_ms"),
    [(1, 3_200_000, 64_000_000), (20, 64_000_000, 1_280_000_000)],
)
def test_six_levels(lowest_tick_ms: int, tick_ms: int, span_ms: int) -> None:
    """Levels of 20 slots each: the sixth spans 64,000,000 ms if the lowest spans 20 ms.

    If the lowest has a tick of 20 ms, 64,000,000 ms are the sixth level's tick.
    """
    wheel = _wheel(span_ms - lowest_tick_ms, tick=lowest_tick_ms)
    levels = _levels(wheel)
    assert len(levels) == 6
    assert (levels[5].tick_ms, levels[5].interval_ms) == (tick_ms, span_ms)


def test_a_task_comes_down_two_levels_at_once() -> None:
    """Tick 10 s, 8 cells: at 640 s the task for 700 s goes to the cell 691-700, as 700 < 640 + 80.

    The text sends it through the cell 641-720 of level two.
    """
    wheel = _wheel(700, tick=10, size=8)
    assert _occupied(wheel) == [[], [], [(1, 640, 1)]]
    assert wheel.advance(640) == 0
    assert _occupied(wheel) == [[(6, 700, 1)], [], []]
    assert wheel.advance(699) == 0
    assert wheel.advance(700) == 1


def _diary(delays: dict[str, int], size: int, ticks: int) -> list[tuple[int, str]]:
    """The tasks that fire at each tick of a wheel with a tick of 1."""
    timer = Timer(0, wheel_size=size)
    diary: list[tuple[int, str]] = []
    for name, delay in delays.items():
        timer.schedule(delay, lambda name=name: diary.append((timer.now_ms, name)))  # type: ignore[misc]
    for tick in range(ticks + 1):
        timer.advance(tick)
    return diary


@pytest.mark.parametrize(
    ("delays", "fired"),
    [
        ({"A": 0, "B": 1, "C": 1, "D": 3}, [(0, "A"), (1, "B"), (1, "C"), (3, "D")]),
        ({"B": 1, "D": 3, "A": 0, "C": 1}, [(0, "A"), (1, "B"), (1, "C"), (3, "D")]),
        ({"7": 7, "8": 8, "9": 9}, [(7, "7"), (8, "8"), (9, "9")]),
    ],
)
def test_each_task_fires_at_its_tick(delays: dict[str, int], fired: list[tuple[int, str]]) -> None:
    """In a wheel of 8 cells, and within one tick in the order of insertion."""
    assert _diary(delays, size=8, ticks=max(delays.values())) == fired


def test_a_delay_queue_gives_nothing_before_its_time() -> None:
    """Delays of 6, 2 and 5 s come out as 2, 5, 6, each at its instant."""
    timer = Timer(0)
    out: list[tuple[int, int]] = []
    for delay_ms in (6_000, 2_000, 5_000):
        timer.schedule(delay_ms, lambda due_ms=delay_ms: out.append((due_ms, timer.now_ms)))  # type: ignore[misc]
    while (next_ms := timer.next_expiry_ms) is not None:
        timer.advance(next_ms)
        assert all(came_ms == due_ms for due_ms, came_ms in out)
    assert [due_ms for due_ms, _ in out] == [2_000, 5_000, 6_000]


class _Waiting(DelayedOperation):
    """Completes once it may; counts how often."""

    __slots__ = ("completed_count", "may_complete")

    def __init__(self) -> None:
        super().__init__(1_000)
        self.completed_count = 0
        self.may_complete = False

    def try_complete(self) -> bool:
        """See whether it may."""
        return self.may_complete and self.force_complete()

    def on_complete(self) -> None:
        """Count."""
        self.completed_count += 1

    def on_expire(self) -> None:
        """It must not come to this."""
        raise AssertionError("an operation expired")


def test_one_event_completes_ten_operations() -> None:
    """They wait on one key: each completes once, and nothing is left watched."""
    timer = Timer(0)
    purgatory: Purgatory[_Waiting] = Purgatory("test", timer)
    operations = [_Waiting() for _ in range(10)]
    for operation in operations:
        assert not purgatory.try_complete_or_watch(operation, ["partition"])
    assert purgatory.watched_count == 10
    for operation in operations:
        operation.may_complete = True
    assert purgatory.check_and_complete("partition") == 10
    assert [operation.completed_count for operation in operations] == [1] * 10
    assert (purgatory.watched_count, purgatory.delayed_count, purgatory.key_count) == (0, 0, 0)
    timer.advance(10_000)
    assert [operation.completed_count for operation in operations] == [1] * 10
