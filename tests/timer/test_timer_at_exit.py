"""A timer that nobody closed, met by the interpreter's last collection."""

import subprocess
import sys

FORGOTTEN = """
import functools
from kprod.timer.timer import Timer, TimerTask

class Owner:
    __slots__ = ("timer", "me", "tasks")

def make(count):
    owner = Owner()
    owner.timer, owner.me = Timer(0), owner
    owner.tasks = [TimerTask(functools.partial(print, owner)) for _ in range(count)]
    for index, task in enumerate(owner.tasks):
        owner.timer.add(10 ** (1 + index % 9), task)
    return owner

Timer.kept = [make(count) for count in range(40)]
"""


def test_a_forgotten_timer_does_not_disturb_the_exit() -> None:
    """Timer, tasks and the class itself go in one collection, in any order, without a word."""
    ended = subprocess.run(
        [sys.executable, "-c", FORGOTTEN], capture_output=True, timeout=60, check=False
    )

    assert (ended.returncode, ended.stderr) == (0, b"")
