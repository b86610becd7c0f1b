"""InitProducerId: assigns a producer id to an idempotent producer.

Behaviour.
    A. Without a transactional id any broker gives a new id with epoch 0, whatever id and epoch
       the client had; an id without an epoch, or the other way round, is INVALID_REQUEST.
    B. An empty transactional id is answered with INVALID_REQUEST.
    C. A transactional id is answered with TRANSACTIONAL_ID_AUTHORIZATION_FAILED: there will never
       be a coordinator for it here, so the client must not try again; see `FindCoordinatorHandler`.
    D. The ids that were given cannot be written down: KAFKA_STORAGE_ERROR.
Rights: IDEMPOTENT_WRITE on the cluster, or WRITE on a topic, whichever.
Versions: 0 to 5.
Left out: transactions.
Source: Kafka TransactionCoordinator.handleInitProducerId.
"""

from kprod.broker.cluster_state import ClusterState
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.rejection import Rejected
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_NOTHING = -1


class InitProducerIdHandler(Handler):
    """Assigns producer ids."""

    api_key = ApiKey.INIT_PRODUCER_ID
    versions: tuple[int, int] = (0, 5)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately."""
        transactional_id = request.body["transactional_id"]
        had_id = request.body["producer_id"] != _NOTHING
        if had_id != (request.body["producer_epoch"] != _NOTHING):
            request.answer(self.reject(request, ErrorCode.INVALID_REQUEST))  # case A
            return
        if transactional_id is None:
            try:
                _check_idempotent(request)
                producer_id = self._state.producer_ids.new_id()
            except Rejected as rejected:
                request.answer(self.reject(request, rejected.code))  # case D
                return
            request.answer({"producer_id": producer_id, "producer_epoch": 0})  # case A
        elif not transactional_id:
            request.answer(self.reject(request, ErrorCode.INVALID_REQUEST))  # case B
        else:
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            request.answer(self.reject(request, code))  # case C

    def reject(self, request: Request, code: int) -> Body:  # noqa: ARG002 - a Handler's
        """Respond without an id."""
        return {"error_code": code, "producer_id": -1, "producer_epoch": -1}


def _check_idempotent(request: Request) -> None:
    if not request.access.may_any("WRITE", "topic"):
        request.access.check("IDEMPOTENT_WRITE", "cluster")
