"""At the start of a session: every compiled module is as new as its source, or no test runs.

An extension file whose source was moved away is rejected too, since imports still find it.

A compiled module whose source was edited since runs its old code, and a traceback shows the new
lines beside it. What the tests say of such a tree is true of no tree at all.

Thread-safety: runs in the thread of the tests; with xdist, in the process that hands out the tests.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.built_tree import MISSING, orphans, stale_modules

ROOT = Path(__file__).resolve().parent.parent.parent
SHOWN_MAX = 5


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compare times, and end the session if one is wrong."""
    if hasattr(session.config, "workerinput"):
        return  # the process that started this one has looked
    if not (ROOT / "setup.py").exists():
        return  # a copy of the tests alone, for an installed wheel: nothing is compiled in it
    stale = stale_modules(ROOT)
    if stale:
        raise pytest.UsageError(complaint(stale))
    if left := orphans(ROOT):
        raise pytest.UsageError(
            f"these extension files have no source any more; run rm {' '.join(left)}"
        )


def complaint(stale: Mapping[str, str]) -> str:
    """Say what is stale, and what to do about it.

    Args:
        stale: From `stale_modules`, not empty.

    Returns:
        A text of several lines.
    """
    lines = [f"{name} {reason}" for name, reason in list(stale.items())[:SHOWN_MAX]]
    if len(stale) > SHOWN_MAX:
        lines.append(f"and {len(stale) - SHOWN_MAX} more")
    forget = "rm -f .venv/.built; " if MISSING in stale.values() else ""  # make goes by its time
    what = "1 compiled module is" if len(stale) == 1 else f"{len(stale)} compiled modules are"
    return "\n  ".join(
        [f"{what} not up to date, so the tests would run old code; run {forget}make setup:", *lines]
    )
