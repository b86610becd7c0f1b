"""A request's bytes."""

import pytest

from kprod.errors import LocalProtocolError
from kprod.network.client_request import ClientRequest, Outcome
from kprod.protocol.api import ApiKey
from kprod.protocol.api_versions import SUPPORTED


def ignore(outcome: Outcome) -> None:
    """Nobody waits."""
    assert outcome


def test_a_body_becomes_one_frame() -> None:
    """Length, header, body; by hand from the protocol's tables for ApiVersions 0."""
    request = ClientRequest(node_id=1, api_key=ApiKey.API_VERSIONS, on_complete=ignore, body={})

    frame = request.encode(0, 7, "me")

    assert b"".join(frame.pieces) == bytes.fromhex("0000000c 0012 0000 00000007 0002 6d65")
    assert (frame.size_bytes, frame.written_bytes) == (16, 0)


def test_a_caller_that_gives_nothing_to_send() -> None:
    """A bug in kprod, and said so."""
    request = ClientRequest(node_id=1, api_key=ApiKey.METADATA, on_complete=ignore)

    with pytest.raises(LocalProtocolError, match="METADATA"):
        request.encode(9, 0, "me")


def test_versions_default_to_all_that_kprod_has() -> None:
    """A caller may narrow them."""
    request = ClientRequest(node_id=1, api_key=ApiKey.METADATA, on_complete=ignore)
    narrow = ClientRequest(node_id=1, api_key=ApiKey.METADATA, on_complete=ignore, versions=(4, 5))

    assert request.wanted_versions == SUPPORTED[ApiKey.METADATA]
    assert narrow.wanted_versions == (4, 5)
