"""The steps of a new connection, without a socket."""

from kprod.network.handshake import ApiVersionsStep, Handshake, Progress
from kprod.protocol.api import ApiKey
from kprod.protocol.api_versions import SUPPORTED
from kprod.protocol.codec import response_codec

NEWEST = SUPPORTED[ApiKey.API_VERSIONS][1]


def test_versions_are_asked_for_and_end_the_handshake() -> None:
    """In the newest version; the step keeps what the broker said."""
    handshake = Handshake(ApiVersionsStep())
    request, version = handshake.request(7, 0)
    body = {"api_keys": [{"api_key": 0, "min_version": 3, "max_version": 13}]}

    handshake.take(memoryview(response_codec(request.api_key, version).encode(body)))

    assert (request.node_id, request.api_key, version) == (7, ApiKey.API_VERSIONS, NEWEST)
    assert handshake.go_on(print) is Progress.DONE
    assert handshake.api_versions.features is not None
    assert handshake.api_versions.features.versions == {0: (3, 13)}


def test_a_step_may_ask_again() -> None:
    """A broker that is older is asked in its own version; the handshake is not over."""
    handshake = Handshake(ApiVersionsStep())
    handshake.request(7, 0)
    rejection = {
        "error_code": 35,
        "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 2}],
    }

    handshake.take(memoryview(response_codec(ApiKey.API_VERSIONS, 0).encode(rejection)))

    assert handshake.go_on(print) is Progress.ASK
    assert handshake.request(7, 0)[1] == 2
