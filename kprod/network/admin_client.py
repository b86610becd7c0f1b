"""Sends administrative requests to the brokers of a cluster, one at a time.

An unreachable cluster is reported immediately, not after the timeout, since a person is waiting. A
request that may have been executed is not repeated, unless repeating it changes nothing.

Thread-safety: one thread.
Source: Kafka's KafkaAdminClient (clients 4.3.1) for the retriable errors.
"""

import itertools
import random
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

from kprod._core.wire.wire_bounds import Bounds
from kprod.clock import SystemClock
from kprod.cluster.backoff import ExponentialBackoff
from kprod.config import ClientConfig
from kprod.errors import ConnectionFailed, KprodTimeout
from kprod.model import Node
from kprod.network.client_request import ClientRequest, Outcome
from kprod.network.connection_context import NetworkIO
from kprod.network.standalone_client import open_client
from kprod.network.trouble_log import not_reached
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

TIMEOUT_MS = 30_000
# Grace time for the next address of a name, after an attempt with one has failed.
SETTLE_MS = 500
# Limit for the fields of a response about 100,000 partitions.
_RESPONSE_BYTES = 256 << 20
_TURN_MS = 100
_BACKOFF = ExponentialBackoff(initial_ms=100, max_ms=1_000)


class Question(NamedTuple):
    """A request for a broker.

    Attributes:
        api_key: Key of the request's API.
        body: The request's fields.
        versions: First and last version with these fields.
        is_repeatable: Whether the request is idempotent.
    """

    api_key: ApiKey
    body: Mapping[str, Any]
    versions: tuple[int, int]
    is_repeatable: bool = False


class AdminClient:
    """Connections to a cluster's brokers.

    Args:
        config: The client settings.
        timeout_ms: Timeout of each call, at least 1.
        clock: The clock; the system's by default.
        rng: Random numbers for jitter.
        io: Sockets, selector and resolver; the system's by default.

    Raises:
        ConfigError: A certificate file or text cannot be used, or an extra is not installed.
    """

    __slots__ = ("_addresses", "_client", "_clock", "_metadata", "_opened", "_rng", "_timeout_ms")

    def __init__(
        self,
        config: ClientConfig,
        *,
        timeout_ms: int = TIMEOUT_MS,
        clock: SystemClock | None = None,
        rng: random.Random | None = None,
        io: NetworkIO | None = None,
    ) -> None:
        self._timeout_ms = timeout_ms
        self._rng = rng or random.Random()  # noqa: S311 - jitter
        self._opened = open_client(config, clock=clock, rng=self._rng, io=io)
        self._client, self._metadata, self._clock = self._opened
        self._addresses = frozenset(
            Node(-1, host, port).address for host, port in config.bootstrap_servers
        )

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close the connections; idempotent."""
        self._opened.close()

    def connect(self) -> None:
        """Wait for the first metadata response.

        Raises:
            ConnectionFailed: No address can be used; the text has a reason for each.
            KprodTimeout: No broker responded in time.
        """
        self._connect(self.deadline_ms())

    @property
    def principal(self) -> str:
        """User and mechanism of the login, for error texts; empty without a login."""
        return self._metadata.principal

    def nodes(self) -> list[Node]:
        """Return the cluster's brokers, by id.

        Raises:
            ConnectionFailed, KprodTimeout: As for `connect`.
        """
        self.connect()
        return sorted(self._metadata.snapshot.nodes.values())

    def deadline_ms(self) -> int:
        """Return the deadline of a call that begins now, monotonic."""
        return self._clock.now_ms() + self._timeout_ms

    def back_off(self, failures: int, deadline_ms: int) -> bool:
        """Wait before another attempt, which needs newer metadata.

        Args:
            failures: Number of failed attempts before this one.
            deadline_ms: Deadline of the call, monotonic.

        Returns:
            False if the deadline has passed.
        """
        self._metadata.request_update()
        self._pause(_BACKOFF.wait_ms(failures, self._rng), deadline_ms)
        return self._clock.now_ms() < deadline_ms

    def ask(self, question: Question, node_id: int | None = None) -> dict[str, Any]:
        """Send a request.

        Args:
            question: The request.
            node_id: The broker to send it to; None for the controller.

        Returns:
            The response's fields. Error codes are left to the caller, except NOT_CONTROLLER, after
            which the next controller is asked.

        Raises:
            ConnectionFailed: No broker can be used, or the connection was lost after a request that
                is not repeatable; the cluster may have executed it.
            KprodTimeout: No response came in time.
            UnsupportedVersion: The broker is too old for the request.
        """
        deadline_ms = self.deadline_ms()
        failures = 0
        while True:
            self._connect(deadline_ms)
            outcome = self._answer(question, node_id, deadline_ms)
            error = outcome.error
            if error is not None:
                is_harmless = question.is_repeatable or not outcome.was_written
                if not (error.retriable and is_harmless):
                    raise error
            elif not _says_controller_moved(outcome.body):
                return dict(outcome.body)
            self.back_off(failures, deadline_ms)
            failures += 1

    def _connect(self, deadline_ms: int) -> None:
        failing = _FailingSince()
        while self._metadata.snapshot.is_bootstrap:
            self._raise_if_unreachable(failing, None)
            self._turn(deadline_ms, "no broker has told of the cluster")

    def _answer(self, question: Question, node_id: int | None, deadline_ms: int) -> Outcome:
        outcomes: list[Outcome] = []
        failing, missing = _FailingSince(), _FailingSince()
        is_sent = False
        while not outcomes:
            if not is_sent:
                node = self._controller() if node_id is None else self._node(node_id)
                self._raise_if_unreachable(failing, node)
                is_missing = node is None and node_id is not None
                if missing.has_settled(self._clock.now_ms(), is_failing=is_missing):
                    raise ConnectionFailed(f"the cluster has no broker {node_id} at present")
                if node is not None and self._client.ready(node, self._clock.now_ms()):
                    is_sent = True
                    self._send(node, question, outcomes)
            self._turn(deadline_ms, f"{question.api_key.name} was not answered")
        return outcomes[0]

    def _raise_if_unreachable(self, failing: "_FailingSince", node: Node | None) -> None:
        """Raise if a node, or without one every bootstrap address, keeps failing."""
        failed = self._metadata.connection_failures.by_address
        addresses = self._addresses if node is None else {node.address}
        if failing.has_settled(self._clock.now_ms(), is_failing=addresses <= failed.keys()):
            if node is not None:
                raise ConnectionFailed(not_reached(node, failed[node.address]))
            raise ConnectionFailed(f"no broker can be used: {self._metadata.trouble()}")

    def _send(self, node: Node, question: Question, outcomes: list[Outcome]) -> None:
        request = ClientRequest(
            node_id=node.node_id,
            api_key=question.api_key,
            versions=question.versions,
            body=question.body,
            bounds=Bounds(memory_bytes=_RESPONSE_BYTES),
            on_complete=outcomes.append,
        )
        self._client.send(request, self._clock.now_ms())

    def _node(self, node_id: int) -> Node | None:
        """Return a broker; None, and newer metadata soon, if the metadata does not name it."""
        node = self._metadata.snapshot.nodes.get(node_id)
        if node is None:
            self._metadata.request_update()
        return node

    def _controller(self) -> Node | None:
        """Return the controller, or any reachable broker: with KRaft each forwards requests."""
        snapshot = self._metadata.snapshot
        if snapshot.is_bootstrap:
            return None
        failed = self._metadata.connection_failures.by_address
        controller = snapshot.nodes.get(snapshot.controller_id)
        nodes = [*([] if controller is None else [controller]), *snapshot.nodes.values()]
        return next((node for node in nodes if node.address not in failed), next(iter(nodes), None))

    def _pause(self, wait_ms: int, deadline_ms: int) -> None:
        until_ms = self._clock.now_ms() + wait_ms
        while (now_ms := self._clock.now_ms()) < until_ms:
            self._client.poll(min(until_ms - now_ms, _TURN_MS), now_ms)
            if now_ms >= deadline_ms:
                return

    def _turn(self, deadline_ms: int, text: str) -> None:
        now_ms = self._clock.now_ms()
        if now_ms >= deadline_ms:
            raise KprodTimeout(f"{text} in {self._timeout_ms} ms: {self._metadata.trouble()}")
        self._client.poll(min(deadline_ms - now_ms, _TURN_MS), now_ms)


class _FailingSince:
    """Measures how long something has been failing without interruption."""

    __slots__ = ("_since_ms",)

    def __init__(self) -> None:
        self._since_ms: int | None = None

    def has_settled(self, now_ms: int, *, is_failing: bool) -> bool:
        """Whether it has failed long enough to be reported."""
        if not is_failing:
            self._since_ms = None
        elif self._since_ms is None:
            self._since_ms = now_ms
        return self._since_ms is not None and now_ms - self._since_ms >= SETTLE_MS


def _says_controller_moved(body: Mapping[str, Any]) -> bool:
    return ErrorCode.NOT_CONTROLLER in error_codes(body)


def error_codes(body: Mapping[str, Any]) -> Iterator[int]:
    """Yield the error codes of a response, of the entries of its lists, and of their entries.

    Args:
        body: The response's fields.

    Yields:
        The codes, NONE included.
    """
    if "error_code" in body:
        yield body["error_code"]
    lists = [entries for entries in body.values() if isinstance(entries, list)]
    for entry in itertools.chain.from_iterable(lists):
        if isinstance(entry, Mapping):
            yield from error_codes(entry)
