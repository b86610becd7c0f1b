"""The values of a report: a measured quantity, one line of the result, and numbers for people.

Thread-safety: immutable values.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the result: a quantity, how sure it is, and how it stands to the baseline.

    Attributes:
        name: Unique in a report; series, metric and point put together.
        value: Median of `samples`, in `unit`.
        n: Number of samples.
        spread: (largest - smallest) / median of the samples; 0 for a single one.
        ratio: Median of `ratios`; None without a baseline.
        baseline: The series that `ratios` are taken to.
        at: Position on the curve (such as the number of pending timers); None without a curve.
    """

    name: str
    value: float
    unit: str
    n: int
    spread: float
    ratio: float | None = None
    baseline: str | None = None
    series: str = ""
    metric: str = ""
    at: float | None = None
    samples: tuple[float, ...] = ()
    ratios: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Metric:
    """A quantity that contestants are compared by.

    Attributes:
        name: Name in the table, and key if a contestant returns several figures.
        unit: Unit of the samples.
        more_is_better: Says so in the plot; the ratio is a plain quotient either way.
        against: Label of the curve's x axis: the quantity that its points count.
    """

    name: str
    unit: str
    more_is_better: bool = True
    against: str = "n"


def row_of(
    metric: Metric,
    series: str,
    samples: Sequence[float],
    *,
    baseline: tuple[str, Sequence[float]] | None = None,
    at: float | None = None,
) -> Row:
    """Make the row of one contestant's samples.

    Args:
        metric: The measured quantity.
        series: The contestant's name.
        samples: At least one, in the order of the rounds.
        baseline: Name and samples of the series to compare with, in the same order; rounds that
            only one of them took part in give no ratio.
        at: The point on the curve.

    Returns:
        The row, with its median, spread and ratios worked out.
    """
    ratios: tuple[float, ...] = ()
    if baseline is not None:
        ratios = tuple(a / b for a, b in zip(samples, baseline[1], strict=False) if b)
    name = baseline[0] if baseline else None
    return summed_row(metric, series, samples, ratios=ratios, baseline=name, at=at)


def summed_row(
    metric: Metric,
    series: str,
    samples: Sequence[float],
    *,
    ratios: Sequence[float],
    baseline: str | None,
    at: float | None,
) -> Row:
    """Make the row of samples whose ratios are known already; see `row_of`."""
    value = statistics.median(samples)
    return Row(
        name=" · ".join((series, metric.name) if at is None else (series, metric.name, f"{at:,g}")),
        value=value,
        unit=metric.unit,
        n=len(samples),
        spread=(max(samples) - min(samples)) / abs(value) if value else 0.0,
        ratio=statistics.median(ratios) if ratios else None,
        baseline=baseline,
        series=series,
        metric=metric.name,
        at=at,
        samples=tuple(samples),
        ratios=tuple(ratios),
    )


def readable(value: float) -> str:
    """Write a number as a person reads it.

    Args:
        value: Any number.

    Returns:
        Four digits, and a suffix from ten thousand up.
    """
    for limit, unit, suffix in ((1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e4, 1e3, " k")):
        if abs(value) >= limit:
            return f"{value / unit:.4g}{suffix}"
    return f"{value:.4g}"
