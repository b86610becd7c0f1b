"""How often a client begins again where that brings nothing new."""

import itertools

from kprod.model import Node
from kprod.network.rebootstraps import LAST_PAUSE_MS, Rebootstraps

NODES = {1: Node(1, "here", 9092)}


def test_the_same_brokers_are_given_up_less_and_less_often() -> None:
    """After 1 s, 2 s and so on up to ten; only the first time is news."""
    rebootstraps = Rebootstraps()
    begun_ms = []
    news = []
    for now_ms in range(0, 60_000, 100):
        if not rebootstraps.must_wait(NODES, now_ms):
            begun_ms.append(now_ms)
            news.append(rebootstraps.begin(dict(NODES), now_ms))

    pauses = [after - before for before, after in itertools.pairwise(begun_ms)]
    assert pauses == [1_000, 2_000, 4_000, 8_000, *[LAST_PAUSE_MS] * 4]
    assert news == [True, *[False] * 8]


def test_other_brokers_are_given_up_at_once() -> None:
    """The cluster moved again."""
    rebootstraps = Rebootstraps()
    rebootstraps.begin(NODES, 0)
    moved = {1: Node(1, "there", 9092)}

    assert rebootstraps.must_wait(NODES, 10)
    assert not rebootstraps.must_wait(moved, 10)
    assert rebootstraps.begin(moved, 10)
    assert rebootstraps.must_wait(moved, 1_009)
    assert not rebootstraps.must_wait(moved, 1_010)
