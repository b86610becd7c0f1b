"""Waits before another try."""

import random

from hypothesis import given
from hypothesis import strategies as st

from kprod.cluster.backoff import ExponentialBackoff


@given(
    initial_ms=st.integers(0, 100_000),
    max_ms=st.integers(0, 100_000),
    failures=st.integers(0, 10_000),
    seed=st.integers(0, 2**32),
)
def test_every_wait_is_within_a_fifth_of_nominal_and_below_the_cap(
    initial_ms: int, max_ms: int, failures: int, seed: int
) -> None:
    """The wait doubles, varies by 20 % and never passes the cap."""
    backoff = ExponentialBackoff(initial_ms=initial_ms, max_ms=max_ms)

    wait_ms = backoff.wait_ms(failures, random.Random(seed))

    nominal_ms = min(initial_ms * 2 ** min(failures, 62), max_ms)
    assert wait_ms <= max_ms
    assert 0.8 * nominal_ms - 1 <= wait_ms <= 1.2 * nominal_ms + 1


def test_waits_differ() -> None:
    """Two clients that fail together do not return together."""
    backoff = ExponentialBackoff(initial_ms=1_000, max_ms=10_000)

    waits_ms = {backoff.wait_ms(0, random.Random(seed)) for seed in range(20)}
    assert len(waits_ms) > 10
