"""Failures of kprod's own whose exceptions have no text: the error says so."""

from collections.abc import Callable

import pytest

from kprod.model import Node
from kprod.network import client_request, connection_errors
from kprod.network.client_request import ClientRequest, Outcome
from kprod.producer import delivery_errors
from kprod.protocol.api import ApiKey
from tests.network.scripted import ready_world
from tests.network.test_client import PRODUCER_ID
from tests.test_error_text import Wordless

TEXT = "Wordless: its text raised RuntimeError"


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

    assert f"could not be processed: {TEXT}" in str(given[1].error)
    assert len(world.outcomes) == 1


def _request() -> ClientRequest:
    return ClientRequest(node_id=1, api_key=ApiKey.INIT_PRODUCER_ID, on_complete=lambda _: None)


@pytest.mark.parametrize(
    "make",
    [
        lambda cause: client_request.encoding_error(_request(), cause),
        lambda cause: connection_errors.failure_error(Node(1, "localhost", 9_092), cause),
        delivery_errors.encoding_error,
        delivery_errors.failure_error,
    ],
    ids=["a request", "a connection", "a batch", "a batch's response"],
)
def test_a_failure_is_described(make: Callable[[Exception], Exception]) -> None:
    """The application sees the error, with its cause."""
    cause = Wordless()
    error = make(cause)
    assert str(error).endswith(TEXT)
    assert error.__cause__ is cause
