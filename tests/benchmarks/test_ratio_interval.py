"""The interval of a median, and the orders within pairs, against known values of both."""

import itertools
import math
import random
import statistics

import pytest
from ratio_interval import SLOWER_BELOW, compared, median_interval, orders


@pytest.mark.parametrize(
    ("count", "rank", "confidence"),
    # From tables of the sign test, such as Conover's.
    [(6, 1, 0.969), (8, 1, 0.992), (9, 2, 0.961), (10, 2, 0.979), (15, 4, 0.965), (20, 6, 0.959)],
)
def test_the_ranks_are_those_of_the_tables(count: int, rank: int, confidence: float) -> None:
    """The k-th smallest and the k-th largest, with the probability that the tables give."""
    samples = [float(number) for number in range(1, count + 1)]
    random.Random(count).shuffle(samples)
    found = median_interval(samples)
    assert found is not None
    assert (found.low, found.high) == (rank, count + 1 - rank)
    assert found.confidence == pytest.approx(confidence, abs=0.0006)


@pytest.mark.parametrize("count", range(6))
def test_fewer_than_six_samples_give_no_interval(count: int) -> None:
    """Even the least and the largest of five hold the median with 94 % only."""
    assert median_interval([1.0] * count) is None


def test_an_interval_of_another_confidence_is_narrower_or_wider() -> None:
    """Half the confidence takes fewer samples in; more than all samples give is rejected."""
    samples = [float(number) for number in range(10)]
    half, more = median_interval(samples, 0.5), median_interval(samples, 0.999)
    assert half is not None
    assert (half.low, half.high) == (3.0, 6.0)
    assert more is None


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    """All 2¹⁰ ways in which ten samples can lie about the median, counted out."""
    held = 0
    for signs in itertools.product((-1.0, 1.0), repeat=10):
        found = median_interval(signs)
        assert found is not None
        held += found.low < 0 < found.high
    found = median_interval([1.0] * 10)
    assert found is not None
    assert held / 2**10 == pytest.approx(found.confidence)


def test_ratios_are_taken_pair_by_pair() -> None:
    """A machine that slows down in the middle disturbs neither the median nor the interval."""
    speeds = [100.0] * 5 + [10.0] * 5
    found = compared([0.5 * speed for speed in speeds], speeds)
    assert found.median == pytest.approx(0.5)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == (0.5, 0.5)
    assert str(found) == "0.500 (0.500–0.500)"


@pytest.mark.parametrize(
    ("ratios", "is_slower"),
    [
        ([0.9] * 10, True),
        ([SLOWER_BELOW] * 10, False),
        ([0.9] * 9 + [1.2], True),  # one pair that was disturbed does not hide it
        ([0.9] * 8 + [1.0, 1.2], False),  # the second largest is the interval's end
        ([0.9] * 5, False),  # too few to be sure
        ([1.0] * 10, False),
    ],
)
def test_slower_is_what_lies_below_the_limit_as_a_whole(
    ratios: list[float], *, is_slower: bool
) -> None:
    """The interval's upper end decides, and nothing does without an interval."""
    found = compared(ratios, [1.0] * len(ratios))
    assert found.is_slower is is_slower
    assert found.median == statistics.median(ratios)


def test_each_side_is_before_each_other_as_often_as_behind() -> None:
    """The second order of every two is the first one reversed; a seed draws the same again."""
    sides = ("old", "new", "peer")
    drawn = orders(sides, 10, seed=19)
    assert len(drawn) == 10
    assert all(sorted(order) == sorted(sides) for order in drawn)
    for one, other in itertools.permutations(sides, 2):
        assert sum(order.index(one) < order.index(other) for order in drawn) == 5
    assert drawn == orders(sides, 10, seed=19)
    assert len(orders(sides, 7, seed=1)) == 7
    many = {tuple(order) for seed in range(20) for order in orders(sides, 2, seed)}
    assert len(many) == math.factorial(3)
