"""Measures timers: churn, add and fire, a mix of both, and memory, from 10³ to 10⁶ pending tasks.

Churn is what timers mostly see: n are pending, each step cancels one and adds one; the delays are
5 ms, 30 s and 120 s, ± 20 %, and time stays. The victim is the oldest, or any: then most of
the cost is cache misses, the loop's own two included (list slot and handle), which all rivals pay.

Costs are CPU time, so that other load on the machine counts less.

Thread-safety: one thread.
"""

import gc
import random
import time
import tracemalloc
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from report import Contestant, Report, main
from report_values import Metric
from timer_rivals import RIVALS, Rival

DELAYS_MS = (5, 30_000, 120_000)
SPREAD = 0.2
TURN_STEPS = 1_000
"""Steps between two turns of a loop; `asyncio` compacts in it."""

KEPT = 1_000
"""Timers that live while the others come and go."""

SCHED_PENDING_MAX = 10_000
"""Beyond it one `sched.cancel` takes milliseconds."""


SCHED_CANCELLED_MAX = 1_000


def nothing() -> None:
    """Be a callback."""


def delays(count: int, unit_ms: float, seed: int = 1) -> list[Any]:
    """Draw delays in a rival's unit."""
    generator = random.Random(seed)
    drawn = [
        int(middle * generator.uniform(1 - SPREAD, 1 + SPREAD))
        for middle in generator.choices(DELAYS_MS, k=count)
    ]
    return drawn if unit_ms == 1 else [delay / unit_ms for delay in drawn]


class Churn:
    """One rival with n timers pending."""

    def __init__(self, make: Callable[[], Rival], pending: int, steps: int) -> None:
        """Add them."""
        self.rival = make()
        self.delays = delays(max(pending, steps), self.rival.unit_ms)
        self.steps = steps
        self.handles = [self.rival.add(delay, nothing) for delay in self.delays[:pending]]
        self.generator = random.Random(2)

    def oldest_first(self) -> float:
        """Cost of a step, ns, when the oldest is cancelled."""
        gc.collect()
        queue = deque(self.handles)
        self.handles.clear()
        elapsed_s = self._timed(queue.popleft, queue.append, self.steps)
        self.handles = list(queue)
        return elapsed_s * 1e9 / self.steps

    def at_random(self) -> float:
        """Cost of a step, ns, when any is cancelled; the drawing is not timed."""
        gc.collect()
        elapsed_s, left = 0.0, self.steps
        while left:
            self.generator.shuffle(self.handles)
            fresh: list[Any] = []
            count = min(left, max(1, len(self.handles) // 2))
            elapsed_s += self._timed(self.handles.pop, fresh.append, count)
            self.handles += fresh
            left -= count
        return elapsed_s * 1e9 / self.steps

    def _timed(self, take: Callable[[], Any], keep: Callable[[Any], object], count: int) -> float:
        rival = self.rival
        add, cancel = rival.add, rival.cancel
        started = time.process_time()
        for begin in range(0, count, TURN_STEPS):
            for delay in self.delays[begin : min(begin + TURN_STEPS, count)]:
                cancel(take())
                keep(add(delay, nothing))
            rival.turn(0)
        return time.process_time() - started


def add_and_fire(make: Callable[[], Rival], count: int, cancelled_ratio: float) -> float:
    """Cost of a timer, ns: added with up to a second, then fired by turns of 1 ms, or cancelled."""
    rival = make()
    generator = random.Random(3)
    spans = [generator.randrange(1, 1_000) / rival.unit_ms for _ in range(count)]
    if rival.unit_ms == 1:
        spans = [int(span) for span in spans]
    doomed = int(count * cancelled_ratio)
    add, cancel = rival.add, rival.cancel
    gc.collect()
    started = time.process_time()
    handles = [add(span, nothing) for span in spans]
    for handle in handles[:doomed]:
        cancel(handle)
    for now_ms in range(1, 1_002):
        rival.turn(now_ms)
    elapsed_s = time.process_time() - started
    rival.close()
    return elapsed_s * 1e9 / count


def bytes_per_pending(make: Callable[[], Rival], pending: int) -> float:
    """Memory of one pending timer, with its handle, the callback shared."""
    rival = make()
    spans = delays(pending, rival.unit_ms)
    handles: list[Any] = [None] * pending
    gc.collect()
    tracemalloc.start()
    for index, span in enumerate(spans):
        handles[index] = rival.add(span, nothing)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    rival.close()
    return used / pending


def resident_bytes() -> int:
    """The memory that the process uses now."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4096


def growth_bytes(make: Callable[[], Rival], pairs: int) -> float:
    """Growth of the process over that many adds and cancels beside a thousand live timers."""
    rival = make()
    spans = delays(10_000, rival.unit_ms)
    kept = [rival.add(span, nothing) for span in spans[:KEPT]]
    add, cancel = rival.add, rival.cancel
    for span in spans:
        cancel(add(span, nothing))
    gc.collect()
    before = resident_bytes()
    for _ in range(pairs // len(spans)):
        for span in spans:
            cancel(add(span, nothing))
    grown = resident_bytes() - before
    assert len(kept) == KEPT  # they are to live until here
    rival.close()
    return float(max(0, grown))


def benchmark(report: Report) -> None:
    """Fill the report."""
    part = report.options.extra.part
    sizes = (1_000, 10_000, 100_000, 1_000_000)
    if part in {None, "churn"}:
        for pending in report.pick(sizes, sizes[:2]):
            churn(report, pending)
    if part in {None, "fire"}:
        for count in report.pick(sizes, sizes[:1]):
            fire(report, count)
    if part in {None, "memory"}:
        memory(report)


def fire(report: Report, count: int) -> None:
    """Compare adding and firing, or mostly cancelling, with that many timers."""
    for name, ratio in (("add and fire", 0.0), ("mix: 9 of 10 cancelled", 0.9)):
        report.compare(
            [
                Contestant(rival, partial(add_and_fire, make, count, ratio))
                for rival, make in RIVALS.items()
                if rival != "sched" or count * ratio <= SCHED_CANCELLED_MAX
            ],
            metric=Metric(name, "ns", more_is_better=False, against="timers"),
            baseline="kprod",
            rounds=3,
            at=count,
        )


def memory(report: Report) -> None:
    """Compare the memory of pending timers, and of cancelled ones."""
    pending = report.pick(100_000, 10_000)
    held = Metric("memory of a pending timer", "bytes", more_is_better=False)
    for name, make in RIVALS.items():
        report.add(held, name, [bytes_per_pending(make, pending)])
    pairs = report.pick(10_000_000, 100_000)
    growth = Metric(
        f"growth of the process over {pairs:,} adds and cancels", "bytes", more_is_better=False
    )
    for name in ("kprod", "heapq, compacting"):
        report.add(growth, name, [growth_bytes(RIVALS[name], pairs)])


def churn(report: Report, pending: int) -> None:
    """Compare the churn at one number of pending timers."""
    # At least as many steps as timers, so that each round has what it takes to compact once.
    steps = max(report.pick(200_000, 20_000), pending)
    names = [name for name in RIVALS if name != "sched" or pending <= SCHED_PENDING_MAX]
    sides = {
        name: Churn(RIVALS[name], pending, steps if name != "sched" else 200) for name in names
    }
    for victim in ("oldest", "random"):
        report.compare(
            [
                Contestant(name, side.oldest_first if victim == "oldest" else side.at_random)
                for name, side in sides.items()
            ],
            metric=Metric(
                f"churn, victim {victim}", "ns", more_is_better=False, against="pending timers"
            ),
            baseline="kprod",
            rounds=5,
            at=pending,
        )
    for side in sides.values():
        side.rival.close()


if __name__ == "__main__":
    main(
        "Timers",
        benchmark,
        arguments=lambda parser: parser.add_argument("--part", choices=["churn", "fire", "memory"]),
    )
