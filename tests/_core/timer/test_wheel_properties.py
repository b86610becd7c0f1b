"""The wheel against a sorted list: any mix of add, cancel, add again, advance."""

from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kprod._core.timer.timer_task import TimerTask
from kprod._core.timer.wheel import TimingWheel
from tests.oracle.timer_heap import SortedListTimer

if TYPE_CHECKING:
    from collections.abc import Hashable

DELAYS_MS = st.one_of(
    st.integers(-5, 45),
    st.integers(0, 10_000),
    st.integers(0, 400_000),
    st.integers(0, 10**12),
)
STEPS_MS = st.one_of(
    st.just(0), st.just(1), st.integers(0, 50), st.integers(0, 200_000), st.just(10**13)
)


class WheelMachine(RuleBasedStateMachine):
    """One wheel, one oracle, twelve tasks."""

    def __init__(self) -> None:
        """Make the tasks."""
        super().__init__()
        self.tasks = [TimerTask(print) for _ in range(12)]

    @initialize(
        now_ms=st.integers(0, 10**6),
        tick_ms=st.sampled_from([1, 1, 7, 10, 1_000]),
        size=st.integers(2, 24),
    )
    def start(self, now_ms: int, tick_ms: int, size: int) -> None:
        """Start both at the same time."""
        self.wheel = TimingWheel(now_ms, tick_ms=tick_ms, wheel_size=size)
        self.oracle = SortedListTimer(now_ms, tick_ms)

    @rule(name=st.integers(0, 11), delay_ms=DELAYS_MS)
    def add(self, name: int, delay_ms: int) -> None:
        """Add a task, or move it."""
        self.wheel.add(delay_ms, self.tasks[name])
        self.oracle.add_at(self.wheel.now_ms + delay_ms, name)

    @rule(name=st.integers(0, 11), offset_ms=DELAYS_MS)
    def add_at(self, name: int, offset_ms: int) -> None:
        """Add a task by its deadline."""
        self.wheel.add_at(self.wheel.now_ms + offset_ms, self.tasks[name])
        self.oracle.add_at(self.wheel.now_ms + offset_ms, name)

    @rule(name=st.integers(0, 11))
    def cancel(self, name: int) -> None:
        """Cancel a task, pending or not."""
        assert self.tasks[name].cancel() == self.oracle.cancel(name)

    @rule(step_ms=STEPS_MS)
    def advance(self, step_ms: int) -> None:
        """Let time pass, whatever fires on the way."""
        self.move_to(self.wheel.now_ms + step_ms)

    @rule()
    def advance_to_next(self) -> None:
        """Let time pass until the wheel has something to do."""
        next_ms = self.wheel.next_expiry_ms
        assert (next_ms is None) == (not self.oracle.deadlines)
        if next_ms is not None:
            assert next_ms <= max(
                min(self.oracle.deadlines.values()) + self.wheel.tick_ms - 1, self.wheel.now_ms
            )
            self.move_to(next_ms)

    def move_to(self, now_ms: int) -> None:
        """Advance both: never early, at most a tick late, each once, in order of ticks."""
        tick_ms = self.wheel.tick_ms
        self.wheel.advance(now_ms)
        fired: list[Hashable] = [self.tasks.index(task) for task in iter(self.wheel.pop_due, None)]
        must, may = self.oracle.advance(now_ms)
        assert len(fired) == len(set(fired))
        assert set(must) <= set(fired) <= set(must) | set(may)
        ticks = [-(-deadline_ms // tick_ms) for deadline_ms in self.oracle.settle(fired)]
        assert ticks == sorted(ticks)

    @invariant()
    def counts_agree(self) -> None:
        """The pending tasks are those of the oracle."""
        if hasattr(self, "wheel"):
            assert len(self.wheel) == len(self.oracle.deadlines)
            assert {i for i, task in enumerate(self.tasks) if task.pending} == set(
                self.oracle.deadlines
            )


TestWheelMachine = WheelMachine.TestCase
TestWheelMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
