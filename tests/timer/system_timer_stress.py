"""Eight threads at one `SystemTimer`, with the interpreter switching threads every microsecond.

Three kinds of round take turns. In a *mix* every thread adds, moves and cancels its own task, and
knows after each step how often the task must have run. In a *relay* one task at a time is on its
way and each adds the next, so that a wake-up that is lost is never made good by another and the
relay stops. In a *burst* all threads add at once, while the reaper wakes and sleeps, and then only
wait: nobody makes good the loss of the last one.

A short switch interval alone seldom hits a gap of two lines. So every thread is also traced, and
now and then pauses between two lines of the timer's own module, as if it had been switched there.

Run as a script for longer: `python -m tests.timer.system_timer_stress --seconds 20`.
"""

import argparse
import itertools
import random
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from kprod.clock import SystemClock
from kprod.timer import SystemTimer, TimerTask, system_timer
from tests.thread_tracing import trace_new_threads

THREAD_COUNT = 8
SWITCH_INTERVAL_S = 1e-6
LOST_AFTER_S = 5
"""A task that has not run after this long is lost; nothing waits so long for another reason."""

PAUSE_RATIO = 0.2
LONGEST_PAUSE_S = 2e-4
RELAY_STEPS = 5
MIX_STEPS = 5
BURSTS = 8


class Runner:
    """One thread's task, and its recorded events."""

    def __init__(
        self, timer: SystemTimer, clock: SystemClock, found_fault: threading.Event, seed: int
    ) -> None:
        """Make the task."""
        self.found_fault = found_fault
        self.timer = timer
        self.clock = clock
        self.random = random.Random(seed)
        self.ran = threading.Semaphore(0)
        self.task = TimerTask(self.run)
        self.faults: list[str] = []
        self.then: Callable[[], object] = self.ran.release

    def run(self) -> None:
        """Be the task: never early."""
        now_ms = self.clock.now_ms()
        if now_ms < self.earliest_ms:
            self.faults.append(f"ran at {now_ms}, before {self.earliest_ms}")
        self.then()

    def add(self, delay_ms: int) -> None:
        """Add the task, or move it."""
        self.earliest_ms = 0  # while it is moved it may run for the old deadline
        earliest_ms = self.clock.now_ms() + delay_ms
        self.timer.add(delay_ms, self.task)
        self.earliest_ms = earliest_ms

    def expect_run(self) -> None:
        """Wait until the task has run once more."""
        if not wait_for(self.ran, self.found_fault):
            self.faults.append("the task was lost")

    def mix(self) -> None:
        """Add and let it run, or cancel it, or move it and let it run."""
        for _ in range(MIX_STEPS):
            if self.faults:
                return
            choice = self.random.random()
            self.add(self.random.choice((0, 1, 1, 2, 2, 25)))
            if choice < 0.4:
                if self.task.cancel():
                    continue
            elif choice < 0.6:
                moved = self.task.cancel()
                self.add(1)
                if not moved:
                    self.expect_run()
            self.expect_run()
        if self.ran.acquire(blocking=False):
            self.faults.append("the task ran twice")

    def burst(self) -> None:
        """Wait for the millisecond at which the reaper wakes, and add just then."""
        self.add(1)
        while self.clock.now_ms() < self.earliest_ms:
            pass
        if not self.task.cancel():
            self.expect_run()
        self.add(0)
        self.expect_run()


def wait_for(semaphore: threading.Semaphore, found_fault: threading.Event) -> bool:
    """Take a semaphore; False when that takes too long, or another found a fault."""
    for _ in range(LOST_AFTER_S * 10):
        if semaphore.acquire(timeout=0.1):
            return True
        if found_fault.is_set():
            return False
    found_fault.set()
    return False


class LineSwitcher:
    """A trace function that pauses a thread between lines of one module, at random."""

    def __init__(self, module_path: str | None, seed: int) -> None:
        """Pause in this module."""
        self.module_path = module_path
        self.random = random.Random(seed)
        self.never = threading.Lock()
        self.never.acquire()

    def __call__(self, frame: FrameType, event: str, _argument: object) -> Any:
        """Trace a frame of the module, and no other."""
        if frame.f_code.co_filename != self.module_path:
            return None
        if event == "line" and self.random.random() < PAUSE_RATIO:
            self.never.acquire(timeout=self.random.random() * LONGEST_PAUSE_S)
        return self


def in_threads(work: list[Callable[[], None]]) -> None:
    """Run each in a thread of its own, started together."""
    barrier = threading.Barrier(len(work))

    def begin(one: Callable[[], None]) -> None:
        barrier.wait()
        one()

    threads = [threading.Thread(target=begin, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def relay(runners: list[Runner]) -> None:
    """Pass one task from thread to thread."""
    turns = [threading.Semaphore(0) for _ in runners]

    def leg(index: int) -> None:
        runner = runners[index]
        for step in range(RELAY_STEPS):
            if not wait_for(turns[index], runner.found_fault):
                runner.faults.append(f"the relay stopped at step {step} before thread {index}")
                return
            runner.add(runner.random.choice((0, 0, 0, 1)))

    for index, runner in enumerate(runners):
        runner.then = turns[(index + 1) % len(runners)].release
    turns[0].release()
    in_threads([partial(leg, index) for index in range(len(runners))])
    if not runners[0].found_fault.is_set():
        wait_for(turns[0], runners[0].found_fault)
    for runner in runners:
        runner.then = runner.ran.release


def stress(seconds: float, seed: int = 1) -> list[str]:
    """Stress one timer.

    Args:
        seconds: No round begins after this long.
        seed: Seed of the threads' choices.

    Returns:
        The violations that were found.
    """
    clock = SystemClock()
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    end_tracing = trace_new_threads(LineSwitcher(system_timer.__file__, seed))
    timer = SystemTimer(clock)
    found_fault = threading.Event()
    runners = [
        Runner(timer, clock, found_fault, seed * 1_000 + index) for index in range(THREAD_COUNT)
    ]
    faults: list[str] = []
    until_ms = clock.now_ms() + int(seconds * 1_000)
    rounds: list[Callable[[], None]] = [
        lambda: relay(runners),
        lambda: in_threads([runner.mix for runner in runners]),
        *[lambda: in_threads([runner.burst for runner in runners])] * BURSTS,
    ]
    try:
        for one in itertools.cycle(rounds):
            one()
            faults = [fault for runner in runners for fault in runner.faults]
            if not faults and len(timer):
                faults = [f"{len(timer)} tasks are left over"]
            if faults or clock.now_ms() > until_ms:
                break
    finally:
        end_tracing()
        sys.setswitchinterval(before_s)
        timer.shutdown()
    return faults


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    found = stress(parser.parse_args().seconds)
    print("\n".join(found) or "no fault found")
    sys.exit(bool(found))
