# cython: annotation_typing=False, nonecheck=True
"""A Produce request: holds its batches, and settles them with the response.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Its bytes are sent directly from the batches; a response that only acknowledges is decoded without
the protocol tables.

Thread-safety: the sender.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kprod._core.wire.acknowledgements import read_acknowledgements
from kprod.model import Acks
from kprod.network.client_request import ClientRequest, Outcome
from kprod.network.framing import Frame
from kprod.network.outgoing import OutgoingFrame
from kprod.producer.batch import ProducerBatch
from kprod.producer.delivery import Delivery
from kprod.producer.produce_bounds import check_response, response_bounds
from kprod.producer.produce_response import PRODUCE_VERSION_BY_ID
from kprod.protocol.api import ApiKey
from kprod.protocol.produce_frame import TopicRecords, produce_opening, produce_rest

if TYPE_CHECKING:
    from kprod._core.wire.wire_bounds import Bounds
    from kprod.protocol.produce_frame import Piece

# cached: looked up for each request, and attribute access on an enum class is slow
_PRODUCE = ApiKey.PRODUCE


class ProduceTerms:
    """The parameters that all Produce requests of a sender share."""

    def __init__(self, delivery: Delivery, *, acks: Acks, timeout_ms: int, first: int) -> None:
        """Keep the parameters.

        Args:
            delivery: Settles batches.
            acks: Acknowledgements that a broker waits for.
            timeout_ms: Maximum time that a broker waits for replicas.
            first: The first version to use.
        """
        self.delivery = delivery
        self.acks: int = int(acks)
        self.timeout_ms = timeout_ms
        self.expects_response: bool = acks is not Acks.NONE
        self.versions: tuple[int, int] = first, PRODUCE_VERSION_BY_ID
        self.versions_by_name: tuple[int, int] = first, PRODUCE_VERSION_BY_ID - 1
        self.opening = b""
        self.opening_version = -1


class ProduceRequest(ClientRequest):
    """A Produce request; needs neither `body` nor `on_complete`.

    Attributes:
        batches: Its batches, at most one for each partition; their memory is held until it is
            complete.
        topics: The records by topic; empty once they are encoded.
        names_by_id: Topic name by topic id (`UUID.int`), at the time of the request.
    """

    def __init__(
        self,
        node_id: int,
        batches: Sequence[ProducerBatch],
        topics: Sequence[TopicRecords],
        terms: ProduceTerms,
    ) -> None:
        """Create a request.

        Args:
            node_id: Id of the leader of all partitions.
            batches: Closed batches.
            topics: The records by topic.
            terms: The sender's common parameters.
        """
        self.node_id = node_id
        self.api_key = _PRODUCE
        self.batches = batches
        self.topics: Sequence[TopicRecords] = topics
        self._terms = terms
        # As of now: a topic may be deleted and created again while the request is in flight.
        self.names_by_id: dict[int, str] = {topic.topic_id.int: topic.name for topic in topics}
        self.versions: tuple[int, int] = (
            terms.versions_by_name if 0 in self.names_by_id else terms.versions
        )
        self.expects_response: bool = terms.expects_response
        self.timeout_ms: int | None = None

    def encode(self, version: int, correlation_id: int, client_id: str) -> OutgoingFrame:
        """See `ClientRequest.encode`."""
        terms = self._terms
        if terms.opening_version != version:
            terms.opening = produce_opening(version, client_id, None, terms.acks, terms.timeout_ms)
            terms.opening_version = version
        pieces: list[Piece] = produce_rest(terms.opening, version, correlation_id, self.topics)
        # The request is encoded only once, and a tuple for each batch would outlive the turn.
        self.topics = []
        return OutgoingFrame(pieces)

    def decode(self, version: int, frame: Frame) -> Any:  # noqa: ANN401 - one of two
        """Decode a response: a list of acknowledgements if that is all, otherwise its fields."""
        said = read_acknowledgements(frame, version, len(self.batches))
        if said is not None:
            return said
        self.bounds: Bounds = response_bounds(self.batches)
        self.check = check_response
        return ClientRequest.decode(self, version, frame)

    def complete(self, outcome: Outcome) -> None:
        """Settle the batches."""
        self._terms.delivery.complete(self.batches, self.names_by_id, outcome)
