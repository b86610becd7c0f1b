"""Requests a producer id, and raises the epoch when a partition's sequences cannot continue.

An idempotent producer sends nothing before it has an id. Any node can assign one; a failed request
is retried after a back-off.

Thread-safety: the sender.
Source: Kafka Sender.maybeSendAndPollTransactionalRequest, for idempotence alone (clients 4.3.1).
"""

from kprod.cluster.refresh_schedule import NEVER_MS
from kprod.errors import ClosedError
from kprod.model import Node
from kprod.network.client import NetworkClient
from kprod.network.client_request import ClientRequest, Outcome
from kprod.producer.accumulator import RecordAccumulator
from kprod.producer.retry_timer import RetryTimer
from kprod.producer.transaction.manager import TransactionManager, check_producer_id
from kprod.protocol.api import ApiKey
from kprod.protocol.denials import denial_or_error


class ProducerIdRequests:
    """The InitProducerId requests of one producer, one at a time."""

    __slots__ = (
        "_accumulator",
        "_client",
        "_failures",
        "_is_held_back",
        "_principal",
        "_timer",
        "_transaction_manager",
    )

    def __init__(
        self,
        transaction_manager: TransactionManager,
        *,
        accumulator: RecordAccumulator,
        client: NetworkClient,
        timer: RetryTimer,
        principal: str,
    ) -> None:
        """Start without requests.

        Args:
            transaction_manager: Says when an id is needed, and gets it.
            accumulator: Notified when batches may be sent.
            client: The network client.
            timer: Timer for the back-off.
            principal: User and mechanism, for the error of a denial.
        """
        self._principal = principal
        self._transaction_manager = transaction_manager
        self._accumulator = accumulator
        self._client = client
        self._timer = timer
        self._failures = 0
        self._is_held_back = False

    def advance(self, now_ms: int) -> int:
        """Raise the epoch, or send a request, if necessary.

        Args:
            now_ms: Monotonic time.

        Returns:
            Milliseconds until the next call; `NEVER_MS` if only an event can change the situation.
        """
        transaction_manager = self._transaction_manager
        if transaction_manager.bump_is_pending and transaction_manager.maybe_bump(
            self._accumulator.queues()
        ):
            self._accumulator.mark_sendable()
        if not transaction_manager.wants_producer_id or self._is_held_back:
            return NEVER_MS
        node = self._client.connections.least_loaded_node(now_ms)
        if node is None or not self._client.ready(node, now_ms):
            return self._wait_for_node_ms(node, now_ms)
        transaction_manager.producer_id_requested()
        body = {
            "transactional_id": None,
            "transaction_timeout_ms": 60_000,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        request = ClientRequest(
            node_id=node.node_id,
            api_key=ApiKey.INIT_PRODUCER_ID,
            body=body,
            on_complete=self._on_complete,
            check=check_producer_id,
        )
        self._client.send(request, now_ms)
        return NEVER_MS

    def _wait_for_node_ms(self, node: Node | None, now_ms: int) -> int:
        """Return how long to wait until another node may be available for the request."""
        if node is not None and self._client.connections.poll_delay_ms(node, now_ms) >= NEVER_MS:
            return NEVER_MS  # connecting; an event reports the result
        return max(self._client.connections.next_attempt_in_ms(now_ms), 1)

    def _on_complete(self, outcome: Outcome) -> None:
        error = outcome.error
        if outcome.body is not None and outcome.body["error_code"]:
            error = denial_or_error(
                outcome.body["error_code"], "IDEMPOTENT_WRITE", principal=self._principal
            )
        if error is None and outcome.body is not None:
            self._failures = 0
            self._transaction_manager.producer_id_received(
                outcome.body["producer_id"], outcome.body["producer_epoch"]
            )
            self._accumulator.mark_sendable()
            return
        if error is not None and not error.retriable and not isinstance(error, ClosedError):
            self._transaction_manager.fail(error)
            return
        self._transaction_manager.producer_id_rejected()
        self._is_held_back = True
        self._timer.start(self._failures, self._release)
        self._failures += 1

    def _release(self) -> None:
        self._is_held_back = False
