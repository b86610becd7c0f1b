"""Completions whose exceptions are odd."""

from kprod.network.client_request import Outcome
from tests.network.scripted import ready_world
from tests.network.test_client import PRODUCER_ID


class Wordless(Exception):
    """Raises when it is asked for a text."""

    def __str__(self) -> str:
        """Raise."""
        raise RuntimeError

    __repr__ = __str__


def test_a_completion_s_exception_may_have_no_text() -> None:
    """The request is completed with an error that says so, and the others still run."""
    world, peer = ready_world()
    given: list[Outcome] = []

    def fail_once(outcome: Outcome) -> None:
        given.append(outcome)
        if outcome.error is None:
            raise Wordless

    world.send(1, on_complete=fail_once)
    world.send(1)
    for request in peer.requests():
        peer.respond(request, PRODUCER_ID)
    world.poll()

    assert "could not be processed: Wordless: its text raised RuntimeError" in str(given[1].error)
    assert len(world.outcomes) == 1
