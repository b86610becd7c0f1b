"""Percentiles the slow way, to compare with."""

import math
from collections.abc import Sequence


def exact_percentile(samples: Sequence[int], percent: float) -> int:
    """Return the smallest sample that this percentage of all does not exceed."""
    ordered = sorted(samples)
    return ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1]
