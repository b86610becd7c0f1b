"""Every input that once was new behaviour, and every seed, against the ordinary build."""

import random

import pytest

from tests.fuzz import corpus, engine
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_corpus_has_no_finding(name: str) -> None:
    """All committed inputs keep the target's promises."""
    inputs = [*TARGETS[name].seeds(), *corpus.load(name)]
    outcomes = {TARGETS[name].check(content) for content in inputs}
    assert len(outcomes) >= 10


@pytest.mark.parametrize("name", TARGETS)
def test_short_search(name: str) -> None:
    """A thousand mutations find nothing; the long search is `make fuzz`."""
    target = TARGETS[name]
    rng = random.Random(11)
    pool = [*target.seeds(), *corpus.load(name)]
    outcomes = {target.check(engine.mutate(rng, target, rng.choice(pool))) for _ in range(1_000)}
    assert len(outcomes) > 10


@pytest.mark.parametrize("name", TARGETS)
def test_planted_bug_is_there(name: str) -> None:
    """Each target has a bug to prove itself on."""
    assert TARGETS[name].planted.read_text(encoding="utf-8").startswith("--- a/kprod/")
