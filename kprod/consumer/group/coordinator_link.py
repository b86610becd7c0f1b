"""Finds a group's coordinator, and sends requests to it on a connection of its own.

A parked JoinGroup or SyncGroup blocks its connection, so fetches need another one: the coordinator
has a node id that no broker has. A LeaveGroup that must not wait for a parked request has a third.

Thread-safety: the I/O thread, apart from `trouble`.
Source: Kafka AbstractCoordinator.lookupCoordinator, FindCoordinatorResponseHandler (clients 4.3.1).
"""

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kprod._core.wire.wire_bounds import Bounds
from kprod.cluster.backoff import ExponentialBackoff
from kprod.cluster.connection_failures import ConnectionFailures
from kprod.errors import KprodError, UnsupportedVersion
from kprod.model import Node
from kprod.network.client import NetworkClient
from kprod.network.client_request import ClientRequest, Outcome
from kprod.protocol.api import ApiKey
from kprod.protocol.api_versions import choose_version
from kprod.protocol.denials import denial_or_error

FOREVER_MS = 60_000
_NODE_ID_MAX = 2**31 - 1
_ASIDE = -(2**31)  # plus a broker's id; no id of an address of bootstrap_servers is so low
_VERSIONS = (0, 3)  # later ones ask for several groups at once
_GROUP_TYPE = 0
_PORT_MAX = 65_535


class CoordinatorRequest(NamedTuple):
    """A request to the coordinator.

    Attributes:
        api_key: Key of the API.
        versions: First and last version that may be used.
        shape: Returns the fields for a version.
        timeout_ms: Time for the response; None for `request_timeout_ms`.
        bounds: Memory bounds of the response; None for the usual ones.
    """

    api_key: ApiKey
    versions: tuple[int, int]
    shape: Callable[[int], dict[str, Any]]
    timeout_ms: int | None = None
    bounds: Bounds | None = None


class CoordinatorLink:
    """The coordinator of one group.

    Attributes:
        node: The coordinator under an id of its own; None while it is unknown.
        aside: The same under another id, for requests that must not wait for a parked one.
    """

    def __init__(  # noqa: PLR0913 - what it is told, and whom it tells
        self,
        client: NetworkClient,
        group_id: str,
        *,
        backoff: ExponentialBackoff,
        rng: random.Random,
        on_problem: Callable[[KprodError], object],
        on_works: Callable[[], object],
        failures: ConnectionFailures,
    ) -> None:
        """Start without a coordinator.

        Args:
            client: Sends the requests.
            group_id: The group.
            backoff: Delay between attempts.
            rng: Random numbers for jitter.
            on_problem: Called with each error that is not retriable; the search continues.
            on_works: Called when the coordinator has answered a request of the group.
            failures: The failures of the client's connections, for texts.
        """
        self._client = client
        self._group_id = group_id
        self._backoff = backoff
        self._rng = rng
        self._on_problem = on_problem
        self._on_works = on_works
        self._connection_failures = failures
        self._is_asking = False
        self._tried: set[int] = set()
        self._failures = 0
        self._retry_at_ms = 0
        self.node: Node | None = None
        self.aside: Node | None = None

    @property
    def trouble(self) -> str:
        """Why no request has succeeded yet, for error texts; any thread."""
        reasons = ["the coordinator is not known or does not respond"]
        return "; ".join(reasons + self._connection_failures.texts())

    def ready(self, now_ms: int, *, is_aside: bool = False) -> bool:
        """Whether a request can be sent; looks for the coordinator and connects if necessary.

        Args:
            now_ms: Monotonic time.
            is_aside: Whether it must not wait for a parked request.

        Returns:
            True if `send` would write to the coordinator's socket.
        """
        node = self._node(is_aside=is_aside)
        if node is not None and node.node_id in self._tried:
            connection = self._client.connections.by_node_id.get(node.node_id)
            if connection is None or connection.state.is_down:
                self.lose(now_ms)  # the broker may be gone, and another one coordinates
                node = None
        if node is None:
            self._find(now_ms)
            return False
        self._tried.add(node.node_id)
        return self._client.ready(node, now_ms)

    def wait_ms(self, now_ms: int, *, is_aside: bool = False) -> int:
        """Return for how long `ready` stays False, unless an event comes first.

        Args:
            now_ms: Monotonic time.
            is_aside: As for `ready`.

        Returns:
            Milliseconds, at least 1.
        """
        node = self._node(is_aside=is_aside)
        if node is not None:
            delay_ms = self._client.connections.poll_delay_ms(node, now_ms)
        elif self._is_asking:
            delay_ms = FOREVER_MS
        else:
            delay_ms = max(
                self._retry_at_ms - now_ms, self._client.connections.next_attempt_in_ms(now_ms)
            )
        return min(FOREVER_MS, max(1, delay_ms))

    def lose(self, now_ms: int) -> None:
        """Look for the coordinator again, after a pause.

        Args:
            now_ms: Monotonic time.
        """
        if self.node is None:
            return
        self.node = self.aside = None
        self._put_off(now_ms)
        for node_id in self._tried:
            self._client.disconnect(node_id)  # its other requests need not wait for their time

    def send(
        self,
        ask: CoordinatorRequest,
        on_complete: Callable[[Outcome], object],
        now_ms: int,
        *,
        is_aside: bool = False,
    ) -> None:
        """Send a request, after `ready` was True.

        Args:
            ask: The request.
            on_complete: Called once with the outcome.
            now_ms: Monotonic time.
            is_aside: As for `ready`.
        """
        node = self._node(is_aside=is_aside)
        node_id = -1 if node is None else node.node_id
        features = self._client.connections.features(node_id)
        versions, body = ask.versions, {}
        try:
            version = choose_version(ask.api_key, features.versions if features else {}, versions)
        except UnsupportedVersion:
            pass  # the client rejects the request for the same reason
        else:
            versions, body = (version, version), ask.shape(version)
        self._client.send(
            ClientRequest(
                node_id=node_id,
                api_key=ask.api_key,
                versions=versions,
                body=body,
                on_complete=on_complete,
                timeout_ms=ask.timeout_ms,
                bounds=ask.bounds,
            ),
            now_ms,
        )

    def works(self) -> None:
        """Record that the coordinator answered as such: pauses begin short, problems are over."""
        self._failures = 0
        self._on_works()

    def _node(self, *, is_aside: bool) -> Node | None:
        return self.aside if is_aside else self.node

    def _find(self, now_ms: int) -> None:
        if self._is_asking or now_ms < self._retry_at_ms:
            return
        node = self._client.connections.least_loaded_node(now_ms)
        if node is None or not self._client.ready(node, now_ms):
            return
        self._is_asking = True
        self._client.send(
            ClientRequest(
                node_id=node.node_id,
                api_key=ApiKey.FIND_COORDINATOR,
                versions=_VERSIONS,
                body={"key": self._group_id, "key_type": _GROUP_TYPE},
                on_complete=self._found,
            ),
            now_ms,
        )

    def _found(self, outcome: Outcome) -> None:
        self._is_asking = False
        body: Mapping[str, Any] | None = outcome.body
        if body is None:
            self._fail(outcome.error or KprodError("no response"), outcome.now_ms)
        elif body["error_code"]:
            error = denial_or_error(
                body["error_code"], "READ", self._group_id, message=body["error_message"]
            )
            self._fail(error, outcome.now_ms)
        elif not 0 <= body["node_id"] < _NODE_ID_MAX or not 0 < body["port"] <= _PORT_MAX:
            self._fail(
                KprodError(f"the coordinator of {self._group_id!r} has no address"), outcome.now_ms
            )
        else:
            # An id that no broker has makes a connection that fetches do not share.
            node_id, host, port = body["node_id"], body["host"], body["port"]
            node, aside = (
                Node(_NODE_ID_MAX - node_id, host, port),
                Node(_ASIDE + node_id, host, port),
            )
            self._tried.clear()
            self.node, self.aside = node, aside

    def _fail(self, error: KprodError, now_ms: int) -> None:
        self._put_off(now_ms)
        if not error.retriable:
            self._on_problem(error)

    def _put_off(self, now_ms: int) -> None:
        self._retry_at_ms = now_ms + max(1, self._backoff.wait_ms(self._failures, self._rng))
        self._failures += 1
