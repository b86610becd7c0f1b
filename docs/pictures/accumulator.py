"""The picture of the accumulator: queues of partitions, their batches, the memory behind them.

Sizes are those that the pool and the settings have by default; how many pieces a batch is made of
is computed from them.
"""

from docs.pictures.drawing import (
    DEEP,
    FAINT,
    GROUND,
    HAIR,
    LEAF,
    MIST,
    ROSE,
    SAND,
    SKY,
    Drawing,
    Point,
)
from kprod._core.memory.chunk_pool import ChunkPool
from kprod.config import ProducerConfig

_QUEUE_LEFT = 230.0
_BATCH: Point = (66.0, 40.0)
_GAP = 8.0
_BYTES_EACH = 512


def draw() -> Drawing:
    """Draw it."""
    config = ProducerConfig.parse({"bootstrap_servers": "localhost:9092"})
    pool = ChunkPool(config.buffer_memory)
    drawing = Drawing(980, 660, "The accumulator: partition queues, batches, and pooled memory")
    drawing.words((24, 36), "The accumulator", size=18, look="bold")
    text = "one queue of batches per partition; a batch is a chain of chunks from one pool"
    drawing.words((24, 58), text, look="faint")
    _draw_senders(drawing)
    limit = config.max_in_flight_requests_per_connection
    _draw_queue(drawing, 100, "orders, partition 0", sent=3, waiting=1)
    _draw_queue(drawing, 190, "orders, partition 1", sent=0, waiting=2)
    _draw_queue(drawing, 280, "clicks, partition 0", sent=1, waiting=0)
    _draw_brokers(drawing, limit)
    _draw_legend(drawing)
    _draw_chain(drawing, pool, config)
    return drawing


def _draw_senders(drawing: Drawing) -> None:
    for index in range(3):
        y = 112.0 + 90 * index
        drawing.words((24, y + 12), "send()", look="mono")
        drawing.words((24, y + 28), f"thread {index + 1}", size=11, look="faint")
    for begin, end in ((0, 0), (0, 1), (1, 1), (2, 1), (2, 2)):
        points = [(84.0, 120.0 + 90 * begin), (_QUEUE_LEFT - 14, 122.0 + 90 * end)]
        drawing.line(points, colour=HAIR, look="arrow")


def _draw_queue(drawing: Drawing, top: float, name: str, *, sent: int, waiting: int) -> None:
    """A queue: batches in flight on the right, the open batch on the left."""
    count = sent + waiting + 1
    room = 5
    drawing.words((_QUEUE_LEFT, top - 6), name, size=12, look="mono")
    drawing.box(
        (_QUEUE_LEFT - 6, top),
        (room * (_BATCH[0] + _GAP) + 4, _BATCH[1] + 12),
        fill=MIST,
        edge=HAIR,
    )
    right = _QUEUE_LEFT + room * (_BATCH[0] + _GAP) - _GAP
    for index in range(count):  # the head of the queue is on the right, nearest to the broker
        x = right - index * (_BATCH[0] + _GAP) - _BATCH[0]
        fill, label = (SAND, "sent") if index < sent else (LEAF, "closed")
        if index == count - 1:
            fill, label = SKY, "open"
        drawing.box((x, top + 6), _BATCH, fill=fill, edge=FAINT)
        drawing.words((x + _BATCH[0] / 2, top + 31), label, size=12, anchor="middle")
    border = right - sent * (_BATCH[0] + _GAP) + _GAP / 2
    drawing.line([(border, top - 6), (border, top + 60)], colour=DEEP, width=2, look="dashed")


def _draw_brokers(drawing: Drawing, limit: int) -> None:
    names = (("broker 1", 100.0, 3), ("broker 2", 190.0, 0), ("broker 3", 280.0, 1))
    for name, top, in_flight in names:
        drawing.line([(608, top + 26), (664, top + 26)], colour=FAINT, look="arrow")
        drawing.box((670, top), (286, 52), fill=GROUND, edge=HAIR)
        drawing.words((682, top + 22), name, look="bold")
        text = f"{in_flight} of {limit} requests in flight"
        drawing.words((682, top + 40), text, size=11, look="faint")
        for index in range(limit):
            fill = SAND if index < in_flight else GROUND
            drawing.box((846 + 21 * index, top + 18), (16, 16), fill=fill, edge=FAINT)


def _draw_legend(drawing: Drawing) -> None:
    y = 366.0
    drawing.line([(230, y - 5), (230, y + 9)], colour=DEEP, width=2, look="dashed")
    drawing.words(
        (240, y + 6), "drain index: sent batches stay at the head until they are", size=12
    )
    drawing.words(
        (240, y + 22), "acknowledged; a retry moves the index back, nothing else", size=12
    )
    drawing.words((670, y + 6), "a request carries one batch of each ready", size=12)
    drawing.words((670, y + 22), "partition that the broker leads", size=12)


def _draw_chain(drawing: Drawing, pool: ChunkPool, config: ProducerConfig) -> None:
    """The memory of one batch, and what lends it."""
    top = 436.0
    drawing.line([(24, top - 22), (956, top - 22)], colour=HAIR)
    drawing.words((24, top + 4), "A batch's memory", size=14, look="bold")
    small, large = pool.small_chunk_bytes, pool.large_chunk_bytes
    sizes = [small, large, large]
    x = 24.0
    for index, size in enumerate(sizes):
        width = max(size / _BYTES_EACH * 7, 44)
        drawing.box((x, top + 22), (width, 40), fill=SKY, edge=FAINT)
        used = width if index < len(sizes) - 1 else width * 0.55
        drawing.box((x, top + 22), (used, 40), fill=LEAF, edge=FAINT)
        text = f"{size:,}" if size == small else f"{size:,} bytes"
        drawing.words((x + width / 2, top + 80), text, size=11, anchor="middle", look="faint mono")
        x += width + 6
    drawing.words((x + 10, top + 40), "… as long as", size=12)
    drawing.words((x + 10, top + 56), "records come", size=12)
    pieces = 1 + -(-(config.batch_size - small) // large)
    capacity = f"{pool.capacity_bytes:,}"
    notes = f"""
        A first small chunk keeps quiet partitions cheap; a full batch of {config.batch_size:,}
        bytes has {pieces} pieces, sent as they lie. All come from one pool of buffer_memory =
        {capacity} bytes. When it is empty, callers wait in line, first come, first served.
        A chain goes back when its last holder releases it: the batch, and each request that still
        carries it. Not when its futures are done.
        """
    drawing.lines((24, top + 112), notes)
    share = 0.18
    drawing.words((756, top + 4), "the pool", size=12)
    drawing.box((756, top + 22), (200, 40), fill=GROUND, edge=FAINT)
    drawing.box((756, top + 22), (200 * share, 40), fill=ROSE, edge=FAINT)
    drawing.words((756, top + 80), "lent", size=11, look="faint")
    drawing.words((956, top + 80), "free", size=11, anchor="end", look="faint")
