"""Calculates the confidence interval of a median of ratios, from two order statistics.

Each sample lies below the true median with probability 1/2, whatever its distribution, so the count
of those below is binomial. Between the k-th smallest and the k-th largest of n samples lies the
true median with probability 1 − 2·P(Binomial(n, 1/2) < k): nothing is assumed of the samples but
that they are independent. No library is needed for it.

Thread-safety: any thread; nothing is kept.
Source: the sign test's interval, such as Conover, Practical Nonparametric Statistics, 3.2; the same
ranks as scipy.stats.quantile_test(…, p=0.5).confidence_interval.
"""

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
SLOWER_BELOW = 0.97
"""A case is slower when its whole interval lies below this ratio of new to old."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval that contains the true median.

    Attributes:
        low: Its lower end, a sample.
        high: Its upper end, a sample.
        confidence: The probability that it holds the median, at least the one asked for.
    """

    low: float
    high: float
    confidence: float


def median_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Find the narrowest symmetric interval of order statistics.

    Args:
        samples: In any order.
        confidence: Least probability that the interval holds the median; above 0 and below 1.

    Returns:
        The interval; None if even the smallest and the largest sample do not suffice: for 95 % six
        samples are needed.
    """
    ordered, count = sorted(samples), len(samples)
    found, below = None, 0.0
    for rank in range(1, count // 2 + 1):
        below += math.comb(count, rank - 1) / 2**count
        if 1 - 2 * below < confidence:
            break
        found = Interval(ordered[rank - 1], ordered[count - rank], 1 - 2 * below)
    return found


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ratios of one figure, pair by pair.

    Attributes:
        ratios: One for each pair.
        median: Their median.
        interval: Interval of the median; None if there are too few pairs.
    """

    ratios: tuple[float, ...]
    median: float
    interval: Interval | None

    @property
    def is_slower(self) -> bool:
        """Whether the whole interval lies below `SLOWER_BELOW`; never without an interval."""
        return self.interval is not None and self.interval.high < SLOWER_BELOW

    def __str__(self) -> str:
        """Return the median, and the interval's ends in brackets."""
        if self.interval is None:
            return f"{self.median:.3f}"
        return f"{self.median:.3f} ({self.interval.low:.3f}–{self.interval.high:.3f})"


def compared(figures: Sequence[float], beside: Sequence[float]) -> Comparison:
    """Divide pair by pair.

    Args:
        figures: At least one, positive.
        beside: As many positive figures of the other side.

    Returns:
        The ratios of `figures` to `beside`, summed up.
    """
    ratios = tuple(one / other for one, other in zip(figures, beside, strict=True))
    return Comparison(ratios, statistics.median(ratios), median_interval(ratios))


def orders(sides: Sequence[str], pairs: int, seed: int) -> list[list[str]]:
    """Draw in which order the sides run, pair by pair.

    The second of every two pairs runs in the reverse order of the first, so that of any two sides
    each is first as often as the other.

    Args:
        sides: Their names.
        pairs: Number of required orders.
        seed: Seed of the draw.

    Returns:
        An order of all sides for each pair.
    """
    source = random.Random(seed)
    drawn: list[list[str]] = []
    while len(drawn) < pairs:
        order = source.sample(list(sides), len(sides))
        drawn += [order, order[::-1]]
    return drawn[:pairs]
