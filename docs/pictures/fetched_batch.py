"""The picture of the way of fetched batches, from the request to the application's hands.

Every row is an event of a real consumer that reads from a scripted broker in virtual time; offsets,
sizes and the memory in use are read from it.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from docs.pictures.drawing import DEEP, FAINT, HAIR, LEAF, SAND, SKY, Drawing
from kprod.consumer.consumer_face import engine_of
from kprod.model import TopicPartition
from kprod.protocol.api import ApiKey
from tests.consumer.reading import scripted_consumer
from tests.network.scripted import PeerRequest
from tests.network.scripted_logs import Log, LogCluster

if TYPE_CHECKING:
    from kprod.consumer.consumer import Consumer
    from kprod.consumer.parts import ConsumerParts

_PARTITION = TopicPartition("orders", 0)
_BATCHES = ((b"a", b"b", b"c"), (b"d", b"e"))
_SESSION = 7
_LANES = (("application's thread", 130.0), ("fetch buffer", 400.0), ("I/O thread", 640.0))
_BROKER = ("broker", 860.0)
_TOP, _ROW = 112.0, 44.0
_WIDTH = 990


class _Row(NamedTuple):
    """One event: the lane that it begins in, the one that it leads to, and its text."""

    start: float
    end: float
    text: str
    fill: str


def draw() -> Drawing:
    """Draw it."""
    rows = _run()
    drawing = Drawing(_WIDTH, round(_TOP + _ROW * len(rows) + 40), "The way of fetched batches")
    drawing.words((24, 36), "The way of fetched batches", size=18, look="bold")
    text = (
        "one response of two batches, read by three calls of poll; the memory is that of responses"
    )
    drawing.words((24, 58), text, look="faint")
    bottom = _TOP + _ROW * len(rows) + 18
    for name, x in (*_LANES, _BROKER):
        drawing.words((x, 88), name, anchor="middle", look="bold")
        drawing.line([(x, 98), (x, bottom)], colour=HAIR)
    for index, row in enumerate(rows):
        _draw_row(drawing, row, _TOP + _ROW * (index + 0.5))
    return drawing


def _draw_row(drawing: Drawing, row: _Row, y: float) -> None:
    if row.start != row.end:
        drawing.line([(row.start, y + 8), (row.end, y + 8)], colour=DEEP, look="arrow")
        drawing.words(((row.start + row.end) / 2, y), row.text, size=11.5, anchor="middle")
        return
    width = 12 + 6.3 * len(row.text)
    drawing.box((row.start - width / 2, y - 10), (width, 24), fill=row.fill, edge=FAINT)
    drawing.words((row.start, y + 6), row.text, size=11.5, anchor="middle")


class _Run:
    """A consumer and a broker whose events become rows."""

    def __init__(self) -> None:
        log = Log()
        for values in _BATCHES:
            log.append(*values)
        self.rows: list[_Row] = []
        self._held_bytes = 0
        cluster = LogCluster(log)
        cluster.rules.append(self._answer)
        self.consumer: Consumer = scripted_consumer(cluster)
        self.parts: ConsumerParts = engine_of(self.consumer).parts

    def _answer(
        self, cluster: LogCluster, node_id: int, request: PeerRequest
    ) -> dict[str, Any] | None:
        if request.api_key != ApiKey.FETCH:
            return None
        body = request.body
        asked = [entry for topic in body["topics"] for entry in topic["partitions"]]
        which = f"from {asked[0]['fetch_offset']}" if asked else "nothing new"
        where = (_LANES[2][1], _BROKER[1])
        text = f"Fetch, session {body['session_id']}.{body['session_epoch']}, {which}"
        self.rows.append(_Row(*where, text, ""))
        answer: dict[str, Any] = {"session_id": _SESSION, "responses": []}
        if asked:
            answer |= cluster.usual_response(node_id, request)
        size = sum(
            len(entry["records"] or b"")
            for topic in answer["responses"]
            for entry in topic["partitions"]
        )
        text = f"records, {size} bytes" if size else "no records"
        self.rows.append(_Row(_BROKER[1], _LANES[2][1], text, ""))
        return answer

    def turn(self) -> None:
        """Run a turn of the I/O thread's loop, and note a block that arrives."""
        self.parts.loop.run_once(self.parts.clock.now_ms())
        held_bytes = self.parts.buffer.held_bytes
        if held_bytes > self._held_bytes:
            partition = self.parts.assignment.partitions[_PARTITION]
            text = f"next fetch from {partition.fetch_offset}"
            self.rows.append(_Row(_LANES[2][1], _LANES[2][1], text, SAND))
            self.rows.append(_Row(_LANES[2][1], _LANES[1][1], "one block", ""))
        if held_bytes != self._held_bytes:
            self._held_bytes = held_bytes
            self.rows.append(_Row(_LANES[1][1], _LANES[1][1], f"{held_bytes} bytes held", SKY))

    def poll(self, count: int) -> None:
        """Take records without a turn of the loop, and note them."""
        records = self.consumer.poll(0, count)
        first, last = records[0].offset, records[-1].offset
        self.rows.append(
            _Row(
                _LANES[1][1],
                _LANES[0][1],
                f"records {first} to {last}" if first < last else f"record {first}",
                "",
            )
        )
        position = self.consumer.position(_PARTITION)
        text = f"poll(0, {count}) returns {len(records)}; position {position}"
        self.rows.append(_Row(_LANES[0][1], _LANES[0][1], text, LEAF))


def _run() -> list[_Row]:
    run = _Run()
    with run.consumer as consumer:
        consumer.assign([_PARTITION])
        consumer.seek(_PARTITION, 0)
        while not run.parts.buffer.has_arrived():
            run.turn()
        for _ in range(3):
            run.poll(2)
        consumer.poll(0)
        run.rows.append(_Row(_LANES[0][1], _LANES[1][1], "the block is used up: free it", ""))
        run.turn()
        return list(run.rows)
