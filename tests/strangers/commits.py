"""The commits of a run as its clients know them: the requests, and their responses.

They are seen where requests reach the broker and responses leave it, so a commit that the
coordinator acknowledges and then loses is one that this book has and the group has not.
"""

from collections.abc import Mapping
from typing import Any

from kprod.broker import EmbeddedCluster
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import response_codec
from kprod.protocol.error_table import ErrorCode
from kprod.protocol.headers import decode_response_header


class Commits:
    """The acknowledged commits of one topic's partitions.

    Attributes:
        last: The offset of the newest one, by partition.
        highest: The highest offset of all, by partition.
        steps_back: Commits of a lower offset than one acknowledged before.
    """

    def __init__(self, cluster: EmbeddedCluster) -> None:
        """Watch a cluster from now on."""
        self.last: dict[int, int] = {}
        self.highest: dict[int, int] = {}
        self.steps_back = 0
        dispatcher: Any = cluster._kprod.engine.take_request
        handlers = dispatcher.__self__._handlers
        inner = handlers[ApiKey.OFFSET_COMMIT]
        handlers[ApiKey.OFFSET_COMMIT] = _Watched(inner, self)

    def note(self, request: Request, frame: bytes) -> None:
        """Note an OffsetCommit response, in the order in which they leave the broker."""
        key, version = request.api_key, request.api_version
        _, at = decode_response_header(key, version, frame)
        answer = response_codec(key, version).decode(frame[at:])
        asked = _by_partition(request.body, "committed_offset")
        for partition, code in _by_partition(answer, "error_code").items():
            if code == ErrorCode.NONE:
                offset = asked[partition]
                self.steps_back += offset < self.last.get(partition, 0)
                self.last[partition] = offset
                self.highest[partition] = max(offset, self.highest.get(partition, 0))


class _Watched(Handler):
    """A handler whose responses are noted."""

    def __init__(self, inner: Handler, commits: Commits) -> None:
        self.api_key, self.versions, self.advertised = (
            inner.api_key,
            inner.versions,
            inner.advertised,
        )
        self._inner = inner
        self._commits = commits

    def handle(self, request: Request) -> None:
        """Handle a request, and note what it was told."""
        request._reply = _Ear(request, self._commits)
        self._inner.handle(request)

    def reject(self, request: Request, code: int) -> Body:
        """Respond as the handler does."""
        return self._inner.reject(request, code)


class _Ear:
    """A connection, as a request uses it, that notes the response."""

    def __init__(self, request: Request, commits: Commits) -> None:
        self._request = request
        self._reply = request._reply
        self._commits = commits

    def send(self, frame: bytes) -> None:
        """Note a response, and send it."""
        self._commits.note(self._request, frame)
        self._reply.send(frame)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reply, name)


def _by_partition(body: Mapping[str, Any], field: str) -> dict[int, int]:
    return {
        entry["partition_index"]: entry[field]
        for topic in body["topics"]
        for entry in topic["partitions"]
    }
