"""Sends requests about groups to their coordinators.

A coordinator may move, or may not be there yet: Kafka creates the topic of the offsets when the
first client asks for a coordinator. So a request is sent again until the client's timeout.

Thread-safety: the client's thread.
Source: Kafka CoordinatorStrategy (clients 4.3.1).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kprod.errors import ConnectionFailed
from kprod.model import Node
from kprod.network.admin_client import AdminClient, Question, error_codes
from kprod.peer_text import peer_text
from kprod.protocol.api import ApiKey
from kprod.protocol.denials import denial_or_error
from kprod.protocol.error_table import ErrorCode

# One group at a time: from version 4 on a request has several.
_FIND_VERSIONS = (0, 3)
_GROUP_KEY = 0
_COORDINATOR_CODES = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_MOVED = {"error_code": int(ErrorCode.NOT_COORDINATOR)}


class Coordinators:
    """The coordinators of groups."""

    __slots__ = ("_admin", "_known")

    def __init__(self, admin: AdminClient) -> None:
        """Start without known coordinators.

        Args:
            admin: A client of the cluster.
        """
        self._admin = admin
        self._known: dict[str, int] = {}

    def note(self, groups: Iterable[str], node_id: int) -> None:
        """Note a coordinator that is known from elsewhere.

        Args:
            groups: Groups that a broker has listed.
            node_id: The broker.
        """
        self._known.update(dict.fromkeys(groups, node_id))

    def ask(self, group_id: str, question: Question) -> tuple[dict[str, Any], Node]:
        """Send a request to a group's coordinator.

        Args:
            group_id: The group.
            question: The request.

        Returns:
            The response, and the coordinator. Error codes are left to the caller; one that says
            that the coordinator is not available remains after the client's timeout alone.

        Raises:
            BrokerError: The coordinator cannot be found, or this client must not know it.
            ConnectionFailed: No broker can be used, or not the coordinator; the text says which.
            KprodTimeout: No response came in time.
            UnsupportedVersion: The broker is too old for the request.
        """
        deadline_ms = self._admin.deadline_ms()
        node_id = -1

        def ask_once() -> dict[str, Any]:
            nonlocal node_id
            known = self._known.pop(group_id, None)
            node_id = self._find(group_id, deadline_ms) if known is None else known
            body = self._ask_moving(group_id, question, node_id, deadline_ms)
            if _is_available(body):
                self._known[group_id] = node_id
            return body

        body = self._repeat(ask_once, deadline_ms)
        return body, self._node(node_id)

    def ask_node(self, node_id: int, question: Question) -> dict[str, Any]:
        """Send a request about all groups to one broker, until it has loaded its groups.

        Args:
            node_id: The broker.
            question: The request.

        Returns:
            The response.

        Raises:
            KprodError: As for `AdminClient.ask`.
        """
        return self._repeat(lambda: self._admin.ask(question, node_id), self._admin.deadline_ms())

    def _ask_moving(
        self, group_id: str, question: Question, node_id: int, deadline_ms: int
    ) -> dict[str, Any]:
        """Ask a coordinator; if it cannot be reached, its successor, once there is one."""
        try:
            return self._admin.ask(question, node_id)
        except ConnectionFailed:
            if not question.is_repeatable or self._find(group_id, deadline_ms) == node_id:
                raise
            return dict(_MOVED)

    def _find(self, group_id: str, deadline_ms: int) -> int:
        body = {"key": group_id, "key_type": _GROUP_KEY}
        question = Question(ApiKey.FIND_COORDINATOR, body, _FIND_VERSIONS, is_repeatable=True)
        found = self._repeat(lambda: self._admin.ask(question), deadline_ms)
        code = found["error_code"]
        if code != ErrorCode.NONE:
            text = f"the coordinator of group {peer_text(group_id)!r}"
            raise denial_or_error(
                code, "DESCRIBE", group_id, principal=self._admin.principal, message=text
            )
        node_id: int = found["node_id"]
        return node_id

    def _repeat(self, ask: Callable[[], dict[str, Any]], deadline_ms: int) -> dict[str, Any]:
        failures = 0
        while True:
            body = ask()
            if _is_available(body) or not self._admin.back_off(failures, deadline_ms):
                return body
            failures += 1

    def _node(self, node_id: int) -> Node:
        known = {node.node_id: node for node in self._admin.nodes()}
        return known.get(node_id, Node(node_id, "", 0))


def _is_available(body: Mapping[str, Any]) -> bool:
    return _COORDINATOR_CODES.isdisjoint(error_codes(body))
