"""Headers: which version goes with which message, and hostile frames."""

import pytest

from kprod.errors import RemoteProtocolError
from kprod.protocol.api import ApiKey
from kprod.protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)


def test_a_flexible_request_keeps_the_old_client_id_and_adds_tags() -> None:
    """Header 2 is header 1 and an empty tag section."""
    old = encode_request_header(ApiKey.METADATA, 8, 7, "me")
    new = encode_request_header(ApiKey.METADATA, 9, 7, "me")
    assert old == bytes.fromhex("0003 0008 00000007 0002") + b"me"
    assert new == bytes.fromhex("0003 0009 00000007 0002") + b"me" + b"\x00"


@pytest.mark.parametrize("version", [0, 8, 9, 12, 13])
@pytest.mark.parametrize("client_id", ["me", "", None])
def test_a_request_header_comes_back(version: int, client_id: str | None) -> None:
    """A written header is read, and the body's place is known."""
    header = encode_request_header(ApiKey.METADATA, version, 2**31 - 1, client_id)
    expected = RequestHeader(ApiKey.METADATA, version, 2**31 - 1, client_id)
    assert decode_request_header(header + b"body") == (expected, len(header))


def test_api_versions_is_answered_with_the_first_header() -> None:
    """The asking client cannot know what the broker speaks."""
    assert encode_response_header(ApiKey.API_VERSIONS, 4, 1) == b"\x00\x00\x00\x01"
    assert encode_response_header(ApiKey.METADATA, 9, 1) == b"\x00\x00\x00\x01\x00"
    assert decode_response_header(ApiKey.API_VERSIONS, 4, b"\x00\x00\x00\x01\x00") == (1, 4)
    assert decode_response_header(ApiKey.METADATA, 9, b"\x00\x00\x00\x01\x00") == (1, 5)


def test_unknown_requests_and_versions_still_have_a_correlation_id() -> None:
    """A version from the future is read with the newest layout, an unknown key with header 1."""
    future = bytes.fromhex("0012 0063 00000005 ffff 00")
    assert decode_request_header(future) == (RequestHeader(18, 99, 5, None), 11)
    unknown = bytes.fromhex("7fff 0000 00000005 ffff")
    assert decode_request_header(unknown) == (RequestHeader(32767, 0, 5, None), 10)


def test_a_short_frame_is_the_peers_fault() -> None:
    """Cut at every byte, a header is a RemoteProtocolError."""
    header = encode_request_header(ApiKey.METADATA, 12, 7, "me")
    for size in range(len(header)):
        with pytest.raises(RemoteProtocolError):
            decode_request_header(header[:size])
    for size in range(5):
        with pytest.raises(RemoteProtocolError):
            decode_response_header(ApiKey.METADATA, 12, bytes(size))
