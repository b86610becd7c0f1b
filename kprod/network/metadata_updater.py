"""Keeps metadata new: puts its question to the least loaded node, connecting to one if it must.

Thread-safety: one thread, the client's.
Source: DefaultMetadataUpdater in NetworkClient.java (clients 4.3.1); KIP-899.
"""

from typing import Protocol

from kprod.cluster.metadata import NEVER_MS, Metadata
from kprod.errors import AuthenticationFailed, UnsupportedVersion
from kprod.model import Node
from kprod.network.request import ClientRequest, Outcome
from kprod.protocol.api import ApiKey
from kprod.protocol.api_versions import SUPPORTED

METADATA_VERSION_MIN = 4  # the first that can ask not to create a topic

_VERSIONS = (METADATA_VERSION_MIN, SUPPORTED[ApiKey.METADATA][1])


class RequestCarrier(Protocol):
    """What the updater needs of the client."""

    def least_loaded_node(self, now_ms: int) -> Node | None:
        """Whom to ask."""

    def can_send(self, node_id: int) -> bool:
        """Whether a request would go out now."""

    def ready(self, node: Node, now_ms: int) -> bool:
        """Connect if need be."""

    def send(self, request: ClientRequest, now_ms: int) -> None:
        """Send."""

    def poll_delay_ms(self, node: Node, now_ms: int) -> int:
        """When asking about a node again can make a difference."""

    def next_attempt_in_ms(self, now_ms: int) -> int:
        """When a node may be connected to again."""


class MetadataUpdater:
    """Asks when a question is due, and hands the answer to `Metadata`."""

    __slots__ = ("_carrier", "_metadata")

    def __init__(self, metadata: Metadata, carrier: RequestCarrier) -> None:
        """Join the two.

        Args:
            metadata: Says what to ask and when.
            carrier: The client.
        """
        self._metadata = metadata
        self._carrier = carrier

    def maybe_update(self, now_ms: int) -> int:
        """Ask if a question is due and a node can be asked; else get nearer to that.

        Args:
            now_ms: Monotonic.

        Returns:
            Milliseconds after which to call again; events on connections come before that.
        """
        due_in_ms = self._metadata.update_due_in_ms(now_ms)
        if due_in_ms > 0:
            return due_in_ms
        node = self._carrier.least_loaded_node(now_ms)
        if node is None:
            return max(self._carrier.next_attempt_in_ms(now_ms), 1)
        if not self._carrier.can_send(node.node_id):
            self._carrier.ready(node, now_ms)
            if self._carrier.poll_delay_ms(node, now_ms) >= NEVER_MS:
                return NEVER_MS  # it is being connected to: wait for that, open no other
            return max(self._carrier.next_attempt_in_ms(now_ms), 1)
        body = self._metadata.next_request(now_ms)
        if body is not None:
            self._carrier.send(
                ClientRequest(
                    node_id=node.node_id,
                    api_key=ApiKey.METADATA,
                    versions=_VERSIONS,
                    body=body,
                    on_complete=self._on_complete,
                ),
                now_ms,
            )
        return NEVER_MS

    def _on_complete(self, outcome: Outcome) -> None:
        if outcome.body is not None:
            self._metadata.handle_response(outcome.body, outcome.now_ms)
            return
        error = outcome.error
        assert error is not None  # noqa: S101 - an outcome has one or the other
        self._metadata.handle_failure(error, outcome.now_ms)
        if isinstance(error, AuthenticationFailed | UnsupportedVersion):
            self._metadata.fail_waiters(error)
