"""Keeps metadata new: puts its question to the least loaded node, connecting to one if it must.

Thread-safety: one thread, the client's.
Source: DefaultMetadataUpdater in NetworkClient.java (clients 4.3.1); KIP-899.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any, Protocol

from kprod.cluster.metadata import Metadata
from kprod.cluster.metadata_response import decode_answer
from kprod.cluster.refresh_schedule import NEVER_MS
from kprod.errors import AuthenticationFailed, BrokerError, Disconnected, UnsupportedVersion
from kprod.model import Node
from kprod.network.client_request import ClientRequest, Outcome
from kprod.network.connections import Connections
from kprod.network.framing import Frame
from kprod.protocol.api import ApiKey
from kprod.protocol.api_versions import SUPPORTED
from kprod.protocol.codec import response_codec
from kprod.protocol.headers import decode_response_header

METADATA_VERSION_MIN = 4  # the first that can ask not to create a topic

_VERSIONS = (METADATA_VERSION_MIN, SUPPORTED[ApiKey.METADATA][1])


class RequestCarrier(Protocol):
    """The methods of the client that the updater calls."""

    def can_send(self, node_id: int) -> bool:
        """Whether a request would be sent now."""

    def ready(self, node: Node, now_ms: int) -> bool:
        """Connect if need be."""

    def send(self, request: ClientRequest, now_ms: int) -> None:
        """Send."""


class MetadataCall(ClientRequest):
    """A Metadata request; it reads of the response only what it asked for."""

    __slots__ = ("_leaders", "_principal")

    def __init__(
        self,
        *,
        leaders: Iterable[int],
        principal: str = "",
        **fields: Any,  # noqa: ANN401 - each its own
    ) -> None:
        """Make a request.

        Args:
            leaders: Ids of the nodes that lead known topics; their addresses are decoded, too.
            principal: User and mechanism, for the errors of denials.
            **fields: As for `ClientRequest`.
        """
        super().__init__(api_key=ApiKey.METADATA, versions=_VERSIONS, **fields)
        self._leaders = frozenset(leaders)
        self._principal = principal

    def decode(self, version: int, frame: Frame) -> Any:  # noqa: ANN401 - one of two
        """Read the response.

        Args:
            version: It is written in.
            frame: Without its length.

        Returns:
            A MetadataAnswer, or the BrokerError that the response is.
        """
        _, body_offset = decode_response_header(ApiKey.METADATA, version, frame)
        assert self.body is not None  # noqa: S101 - the updater gives one
        try:
            return decode_answer(
                response_codec(ApiKey.METADATA, version),
                memoryview(frame)[body_offset:],
                topics=frozenset(topic["name"] for topic in self.body["topics"]),
                leaders=self._leaders,
                principal=self._principal,
            )
        except BrokerError as rejection:
            return rejection


class MetadataUpdater:
    """Asks when a question is due, and hands the response to `Metadata`."""

    __slots__ = ("_carrier", "_connections", "_metadata")

    def __init__(
        self, metadata: Metadata, carrier: RequestCarrier, connections: Connections
    ) -> None:
        """Put the questions of `metadata` to nodes of `connections`.

        Args:
            metadata: Says what to ask and when.
            carrier: The client.
            connections: The client's connections, which decide which node to ask.
        """
        self._metadata = metadata
        self._carrier = carrier
        self._connections = connections

    def maybe_update(self, now_ms: int) -> int:
        """Send a request if one is due and a node is ready; otherwise prepare a node.

        Args:
            now_ms: Monotonic time.

        Returns:
            Milliseconds after which to call again; events on connections come before that.
        """
        self._metadata.take_refreshes(now_ms)
        due_in_ms = self._metadata.update_due_in_ms(now_ms)
        if due_in_ms > 0:
            return due_in_ms
        node = self._connections.least_loaded_node(now_ms)
        if node is None:
            return max(self._connections.next_attempt_in_ms(now_ms), 1)
        if not self._carrier.can_send(node.node_id):
            self._carrier.ready(node, now_ms)
            if self._connections.poll_delay_ms(node, now_ms) >= NEVER_MS:
                return NEVER_MS  # it is being connected to: wait for that, open no other
            return max(self._connections.next_attempt_in_ms(now_ms), 1)
        body = self._metadata.next_request(now_ms)
        if body is not None:
            self._carrier.send(
                MetadataCall(
                    node_id=node.node_id,
                    body=body,
                    leaders=self._metadata.snapshot.all_leaders(),
                    principal=self._metadata.principal,
                    on_complete=partial(self._on_complete, node.address),
                ),
                now_ms,
            )
        return NEVER_MS

    def _on_complete(self, address: str, outcome: Outcome) -> None:
        error = outcome.error
        if isinstance(outcome.body, BrokerError):
            error = outcome.body
        elif outcome.body is not None:
            self._metadata.handle_response(outcome.body, outcome.now_ms)
            return
        assert error is not None  # noqa: S101 - an outcome has one or the other
        if type(error) is Disconnected and address not in str(error):
            error = Disconnected(f"{address}: {error}")
        self._metadata.handle_failure(error, outcome.now_ms)
        if isinstance(error, AuthenticationFailed | UnsupportedVersion):
            self._metadata.fail_waiters(error)
