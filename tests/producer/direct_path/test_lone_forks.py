"""A fork by another thread in the middle of a caller's write."""

import subprocess
import sys

import pytest

from kprod.network import epoll_selector
from tests.producer.direct_path.forking import OK


@pytest.mark.slow
@pytest.mark.skipif(
    not epoll_selector.IS_AVAILABLE, reason="the direct path needs epoll and eventfd (Linux)"
)
def test_a_fork_by_another_thread_during_the_write() -> None:
    """The child rejects records, and its collector runs; the parent's is delivered once."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.producer.direct_path.forking"],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"[{OK}] True 0"
