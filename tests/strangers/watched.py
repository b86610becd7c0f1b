"""Requests of a run and their responses, as they reach the broker and leave it."""

from collections.abc import Callable, Mapping
from typing import Any

from kprod.broker import EmbeddedCluster
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import response_codec
from kprod.protocol.headers import decode_response_header

Note = Callable[[Mapping[str, Any], Mapping[str, Any]], object]
"""Gets the bodies of a request and of its response, in the order in which the responses leave."""


def watch(cluster: EmbeddedCluster, api_key: ApiKey, note: Note) -> None:
    """Note all requests of a kind from now on.

    Args:
        cluster: A running cluster.
        api_key: The kind; clients must wait for its responses.
        note: Called on the broker's thread.
    """
    dispatcher: Any = cluster._kprod.engine.take_request
    handlers = dispatcher.__self__._handlers
    handlers[api_key] = _Watched(handlers[api_key], note)


class _Watched(Handler):
    """A handler whose responses are noted."""

    def __init__(self, inner: Handler, note: Note) -> None:
        self.api_key, self.versions, self.advertised = (
            inner.api_key,
            inner.versions,
            inner.advertised,
        )
        self._inner = inner
        self._note = note

    def handle(self, request: Request) -> None:
        """Handle a request, and note its response."""
        request._reply = _Ear(request, self._note)
        self._inner.handle(request)

    def reject(self, request: Request, code: int) -> Body:
        """Respond as the handler does."""
        return self._inner.reject(request, code)


class _Ear:
    """A connection, as a request uses it, that notes the response."""

    def __init__(self, request: Request, note: Note) -> None:
        self._request = request
        self._reply = request._reply
        self._note = note

    def send(self, frame: bytes) -> None:
        """Note a response, and send it."""
        key, version = self._request.api_key, self._request.api_version
        _, at = decode_response_header(key, version, frame)
        self._note(self._request.body, response_codec(key, version).decode(frame[at:]))
        self._reply.send(frame)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reply, name)
