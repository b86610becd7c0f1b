# cython: annotation_typing=False, nonecheck=True
"""Request and response headers; frames here are without the size prefix.

A flexible request has header 2, any other request header 1; a flexible response has header 1, any
other response header 0. The response to ApiVersions always has header 0, since the client does not
know the broker's versions yet.

Thread-safety: pure functions.
Source: KIP-482; KIP-511 for ApiVersions.
"""

import functools
from typing import Final, NamedTuple

from kprod.errors import RemoteProtocolError
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import REQUESTS, RESPONSES, MessageCodec, structure_codec
from kprod.protocol.schema import BytesLike, Message

_KEY_AND_VERSION_BYTES = 4
_RESPONSES_KEPT: Final = 1_024  # more than exist; bounds the entries that a peer can cause


class RequestHeader(NamedTuple):
    """The header before a request's body.

    Attributes:
        api_key: The request's type; any int16.
        api_version: Version of the request; any int16.
        correlation_id: Number that the response repeats.
        client_id: The client's name for itself; None if it gave none.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def encode_request_header(
    api_key: int, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Write a request's header.

    Args:
        api_key: Key of a request that kprod has tables for.
        version: The body's version.
        correlation_id: The correlation id, any int32.
        client_id: The client id, at most 32,767 bytes of UTF-8, or None.

    Returns:
        The header's bytes.

    Raises:
        LocalProtocolError: A value is out of range.
    """
    return _request_header(api_key, version).encode(
        {
            "request_api_key": int(api_key),
            "request_api_version": version,
            "correlation_id": correlation_id,
            "client_id": client_id,
        }
    )


def decode_request_header(frame: BytesLike) -> tuple[RequestHeader, int]:
    """Read a request's header.

    A version that kprod does not know is read as that request's newest layout, an unknown request
    with header 1; so a response can still be addressed.

    Args:
        frame: Header and body.

    Returns:
        The header, and where the body begins.

    Raises:
        RemoteProtocolError: The frame is too short or is not a header.
    """
    view = memoryview(frame).cast("B")
    if len(view) < _KEY_AND_VERSION_BYTES:
        text = f"a request of {len(view)} bytes cannot hold its API key and version"
        raise RemoteProtocolError(text)
    api_key = int.from_bytes(view[:2], signed=True)
    version = int.from_bytes(view[2:4], signed=True)
    fields, end = _request_header(api_key, version).decode_prefix(view)
    return RequestHeader(api_key, version, fields["correlation_id"], fields["client_id"]), end


def encode_response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """Write a response's header.

    Args:
        api_key: Key of the request.
        version: The response's version.
        correlation_id: The request's correlation id.

    Returns:
        The header's bytes.
    """
    return _response_header(api_key, version).encode({"correlation_id": correlation_id})


def decode_response_header(api_key: int, version: int, frame: BytesLike) -> tuple[int, int]:
    """Read a response's header.

    Args:
        api_key: Key of the request.
        version: The version it was sent in.
        frame: Header and body.

    Returns:
        The correlation id, and where the body begins.

    Raises:
        RemoteProtocolError: The frame is too short or is not a header.
    """
    fields, end = _response_header(api_key, version).decode_prefix(frame)
    return fields["correlation_id"], end


def _request_header(api_key: int, version: int) -> MessageCodec:
    flexible = _is_flexible(REQUESTS.get(api_key), version)
    return structure_codec("RequestHeader", 2 if flexible else 1)


@functools.lru_cache(_RESPONSES_KEPT)
def _response_header(api_key: int, version: int) -> MessageCodec:
    flexible = api_key != ApiKey.API_VERSIONS and _is_flexible(RESPONSES.get(api_key), version)
    return structure_codec("ResponseHeader", 1 if flexible else 0)


def _is_flexible(message: Message | None, version: int) -> bool:
    return message is not None and message.flexible is not None and version >= message.flexible
