"""The picture of a round of compaction: a log before it, the offset map, and the log after it.

All three are read from a log in memory that a real round compacts.
"""

from docs.pictures.drawing import FAINT, HAIR, MIST, SKY, Drawing
from kprod._core.record.offset_map import OffsetMap
from kprod.broker.log.cleaning.picker import Lags, cleanable
from kprod.broker.log.cleaning.round import CleaningRound, RoundSettings
from kprod.broker.log.cleaning.survivors import Horizon
from kprod.broker.log.memory_store import MemoryStore
from kprod.broker.log.partition_log import PartitionLog
from kprod.model import Record
from kprod.record.reader import read_batches
from kprod.record.writer import write_batch

_SENT = (
    (b"key0", b"a"),
    (b"key1", b"b"),
    (b"key2", b"c"),
    (b"key0", b"d"),
    (b"key3", b"e"),
    (b"key1", b"f"),
    (b"key2", None),
    (b"key4", b"g"),
)
_NOW_MS = 1_700_000_000_000
_DAY_MS = 86_400_000
_LEFT, _CELL, _ROW = 120.0, 92.0, 62.0
_BEFORE, _MAP, _AFTER = 92.0, 236.0, 380.0


def draw() -> Drawing:
    """Draw it."""
    drawing = Drawing(880, 490, "A log before compaction, the map of newest offsets, and after")
    drawing.words((24, 36), "A round of compaction", size=18, look="bold")
    text = "of each key the newest record stays, where it was"
    drawing.words((24, 58), text, look="faint")
    log = _written()
    before = _records(log)
    offsets = _compact(log)
    after = _records(log)
    newest = [(record, offsets.get(record.key or b"") == record.offset) for record in before]
    _draw_log(drawing, _BEFORE, "before", newest)
    _draw_map(drawing, [record for record, is_newest in newest if is_newest])
    _draw_log(drawing, _AFTER, "after", [(record, True) for record in after])
    end = f"the next record gets offset {log.log_end_offset}, with or without compaction"
    drawing.words((_LEFT, _AFTER + _ROW + 26), end, size=12, look="faint")
    return drawing


def _written() -> PartitionLog:
    log = PartitionLog(MemoryStore())
    for key, value in _SENT:
        encoded = memoryview(bytearray(write_batch([(0, _NOW_MS, key, value, ())])))
        log.append(next(read_batches(encoded)), encoded, leader_epoch=0)
    log.roll(_NOW_MS)
    return log


def _compact(log: PartitionLog) -> OffsetMap:
    part = cleanable(log, Lags(), limit_offset=log.log_end_offset, now_ms=_NOW_MS)
    cleaning = CleaningRound(log, part, RoundSettings(1 << 16, Horizon(_NOW_MS, _DAY_MS)))
    for _ in cleaning.run():
        pass
    return cleaning.offsets


def _records(log: PartitionLog) -> list[Record]:
    return [record for batch in log.batches() for record in batch]


def _draw_log(drawing: Drawing, top: float, name: str, records: list[tuple[Record, bool]]) -> None:
    drawing.words((24, top + _ROW / 2 + 4), name, look="bold")
    for offset in range(len(_SENT)):
        x = _LEFT + offset * _CELL
        drawing.words((x + _CELL / 2 - 4, top - 6), str(offset), size=11, anchor="middle")
    for record, stays in records:
        x = _LEFT + record.offset * _CELL
        fill = SKY if stays else MIST
        drawing.box((x, top), (_CELL - 8, _ROW), fill=fill, edge=HAIR)
        value = "no value" if record.value is None else record.value.decode()
        look = "mono" if stays else "mono faint"
        middle = x + _CELL / 2 - 4
        drawing.words((middle, top + 26), _text(record), size=12, anchor="middle", look=look)
        drawing.words((middle, top + 46), value, size=12, anchor="middle", look=look)


def _draw_map(drawing: Drawing, newest: list[Record]) -> None:
    drawing.words((24, _MAP + 24), "map", look="bold")
    drawing.words((24, _MAP + 44), "hash: offset", size=11, look="faint")
    for record in newest:
        x = _LEFT + record.offset * _CELL
        middle = x + _CELL / 2 - 4
        text = f"{_text(record)}: {record.offset}"
        drawing.box((x, _MAP), (_CELL - 8, 44), edge=FAINT)
        drawing.words((middle, _MAP + 27), text, size=12, anchor="middle", look="mono")
        drawing.line([(middle, _BEFORE + _ROW + 4), (middle, _MAP - 4)], colour=FAINT, look="arrow")
        points = [(middle, _MAP + 48), (middle, _AFTER - 22)]
        drawing.line(points, colour=FAINT, look="arrow dashed")


def _text(record: Record) -> str:
    return (record.key or b"").decode()
