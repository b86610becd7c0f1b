"""The picture of a log's segment: its batches, and the entries of its two sparse indexes.

A log is written by the broker's own code into a store that keeps the encoded indexes; every number
is read back from those bytes and from the batches' headers.
"""

import struct

from docs.pictures.drawing import DEEP, HAIR, LEAF, MIST, SAND, SKY, Drawing
from kprod.broker.log.memory_store import MemoryStore
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.log.store import Table
from kprod.broker.log.stored_header import BatchHeader
from kprod.model import Record
from kprod.record.reader import read_batches
from kprod.record.writer import write_batch

_INTERVAL_BYTES = 300
_COUNTS = (2, 1, 3, 1, 1, 4, 1, 2, 1, 1)
_TIMES = (10, 20, 15, 40, 30, 50, 45, 45, 70, 60)
_LEFT, _WIDTH, _TOP = 120, 820, 128


class _Kept(MemoryStore):
    """A store that keeps indexes, too."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, bytes] = {}

    def save(self, name: str, table: Table) -> None:
        """Keep the bytes of an index."""
        self.tables[name.rpartition(".")[2]] = table.encoded()


def draw() -> Drawing:
    """Draw it."""
    store = _Kept()
    log = PartitionLog(store, rules=SegmentRules(index_interval_bytes=_INTERVAL_BYTES))
    for number, (count, time_ms) in enumerate(zip(_COUNTS, _TIMES, strict=True)):
        rows = [Record(it, time_ms, b"key-%d" % number, b"v" * 30) for it in range(count)]
        encoded = memoryview(bytearray(write_batch(rows)))
        log.append(next(read_batches(encoded)), encoded, leader_epoch=0)
    log.save_indexes()
    headers = list(log.segments[0].headers())
    drawing = Drawing(980, 480, "A segment of a partition's log and its two indexes")
    drawing.words((24, 36), "A segment and its indexes", size=18, look="bold")
    text = (
        f"before a batch that lies more than {_INTERVAL_BYTES} bytes behind the last entry, each "
        "index gets one for it (index.interval.bytes)"
    )
    drawing.words((24, 58), text, look="faint")
    _draw_batches(drawing, headers)
    offsets = list(struct.iter_unpack(">II", store.tables["index"]))
    times = list(struct.iter_unpack(">qI", store.tables["timeindex"]))
    places = {it.last_offset: _x(it.position + it.size_bytes / 2, headers) for it in headers}
    _draw_entries(drawing, ".index", 236, [(f"{it[0]} → {it[1]}", places[it[0]]) for it in offsets])
    drawing.words((_LEFT, 304), "offset of the batch's last record → position", look="faint")
    _draw_entries(
        drawing, ".timeindex", 348, [(f"{it[0]} ms → {it[1]}", places[it[1]]) for it in times]
    )
    text = "largest timestamp so far → last offset of the first batch that has it"
    drawing.words((_LEFT, 416), text, look="faint")
    text = "A look-up takes the last entry at or below, and reads headers from there on."
    drawing.words((24, 456), text)
    return drawing


def _x(position: float, headers: list[BatchHeader]) -> float:
    end = headers[-1].position + headers[-1].size_bytes
    return _LEFT + _WIDTH * position / end


def _draw_batches(drawing: Drawing, headers: list[BatchHeader]) -> None:
    drawing.words((_LEFT - 14, _TOP + 24), ".log", anchor="end", look="mono")
    for number, it in enumerate(headers):
        left, right = _x(it.position, headers), _x(it.position + it.size_bytes, headers)
        drawing.box((left, _TOP), (right - left, 40), fill=SKY if number % 2 else LEAF, edge=HAIR)
        middle = (left + right) / 2
        same = it.base_offset == it.last_offset
        label = f"{it.base_offset}" if same else f"{it.base_offset}–{it.last_offset}"
        drawing.words((middle, _TOP + 17), label, size=12, anchor="middle")
        time = f"{it.max_timestamp_ms} ms"
        drawing.words((middle, _TOP + 33), time, size=10, anchor="middle", look="faint")
        drawing.words((left, _TOP - 8), f"{it.position}", size=10, look="faint mono")


def _draw_entries(
    drawing: Drawing, name: str, top: float, entries: list[tuple[str, float]]
) -> None:
    drawing.words((_LEFT - 14, top + 24), name, anchor="end", look="mono")
    step = _WIDTH / len(entries)
    for number, (label, x) in enumerate(entries):
        left = _LEFT + number * step
        drawing.box((left, top), (step - 8, 40), fill=SAND if name == ".index" else MIST, edge=HAIR)
        drawing.words((left + step / 2 - 4, top + 25), label, size=12, anchor="middle")
        if name == ".index":
            start = (left + step / 2 - 4, top)
            drawing.line([start, (x, _TOP + 42)], colour=DEEP, look="arrow")
