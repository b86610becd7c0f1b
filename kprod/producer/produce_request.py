# cython: annotation_typing=False, nonecheck=True
"""A Produce request for the client: it knows its batches, and settles them with its response.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Its bytes lie in the batches and are sent from there; its response is read without tables when it
only says yes.

Thread-safety: the sender's.
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

_PRODUCE = ApiKey.PRODUCE  # looked up for each request, and a class of enums is slow to ask


class ProduceTerms:
    """What all Produce requests of a sender have in common."""

    def __init__(self, delivery: Delivery, *, acks: Acks, timeout_ms: int, first: int) -> None:
        """Keep them.

        Args:
            delivery: Settles batches.
            acks: Which replicas a record waits for.
            timeout_ms: How long a broker may wait for replicas.
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
    """One Produce request; it has neither `body` nor `on_complete`, and needs none.

    Attributes:
        batches: What it carries, at most one of a partition; their chains are held until it is
            complete.
        topics: Their records, by topic; none once it is encoded.
        names_by_id: The topics' names by their ids, as integers, when the request was made.
    """

    def __init__(
        self,
        node_id: int,
        batches: Sequence[ProducerBatch],
        topics: Sequence[TopicRecords],
        terms: ProduceTerms,
    ) -> None:
        """Make a request.

        Args:
            node_id: The leader of all their partitions.
            batches: Closed.
            topics: Their records.
            terms: The sender's.
        """
        self.node_id = node_id
        self.api_key = _PRODUCE
        self.batches = batches
        self.topics: Sequence[TopicRecords] = topics
        self._terms = terms
        # As they are now: a topic may be deleted and created again while the request is out.
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
        # Its bytes are made once, and a tuple for each batch would outlive the turn.
        self.topics = []
        return OutgoingFrame(pieces)

    def decode(self, version: int, frame: Frame) -> Any:  # noqa: ANN401 - one of two
        """Read a response: acknowledgements in a list if that is all it says, else its fields."""
        said = read_acknowledgements(frame, version, len(self.batches))
        if said is not None:
            return said
        self.bounds: Bounds = response_bounds(self.batches)
        self.check = check_response
        return ClientRequest.decode(self, version, frame)

    def complete(self, outcome: Outcome) -> None:
        """Settle the batches."""
        self._terms.delivery.complete(self.batches, self.names_by_id, outcome)
