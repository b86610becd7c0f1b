"""The picture of a record batch, format V2: its header's fields, its attributes' bits, a record.

Every number comes from `kprod._core.layout`, which the encoder is compiled with. The header has a
row up to where the checksum begins to count, and two more.
"""

from docs.pictures.drawing import HAIR, LEAF, MIST, ROSE, SAND, SKY, Drawing, Point
from kprod._core.layout import BatchAttributes, BatchLayout, RecordLayout

_BYTE = 36
_LEFT = 150
_ROW = 46
_MARGINS = (
    ("not under the", "checksum"),
    ("CRC-32C covers", "from here on"),
    ("who sent it,", "what is next"),
)
_SHORT = {"PARTITION_LEADER_EPOCH": "leader epoch", "PRODUCER_EPOCH": "epoch"}
_ATTRIBUTES_BITS = 16


def draw() -> Drawing:
    """Draw it."""
    drawing = Drawing(980, 576, "The layout of a Kafka record batch, format V2")
    drawing.words((24, 36), "A record batch, format V2", size=18, look="bold")
    text = f"{int(BatchLayout.BATCH_OVERHEAD_BYTES)} bytes of header, then records; big-endian"
    drawing.words((24, 58), text, look="faint")
    _draw_header(drawing, 82)
    _draw_bits(drawing, 276)
    _draw_record(drawing, 384)
    return drawing


def _fields() -> list[tuple[str, int, int]]:
    """Name, offset and size of each field of the header."""
    starts = sorted(
        (int(each), each.name.removesuffix("_OFFSET"))
        for each in BatchLayout
        if each.name.endswith("_OFFSET")
    )
    ends = [start for start, _ in starts[1:]] + [int(BatchLayout.BATCH_OVERHEAD_BYTES)]
    return [(name, start, end - start) for (start, name), end in zip(starts, ends, strict=True)]


def _draw_header(drawing: Drawing, top: float) -> None:
    rows = (0, int(BatchLayout.ATTRIBUTES_OFFSET), int(BatchLayout.PRODUCER_ID_OFFSET))
    for name, start, size in _fields():
        row = max(index for index, first in enumerate(rows) if start >= first)
        corner = (_LEFT + (start - rows[row]) * _BYTE, top + row * (_ROW + 12))
        drawing.box(corner, (size * _BYTE, _ROW), fill=_fill(name, row), edge=HAIR)
        label = _SHORT.get(name, name.lower().replace("_", " "))
        _fit(drawing, (corner[0] + size * _BYTE / 2, corner[1] + 21), label, size * _BYTE)
        number = f"{start}" if size == 1 else f"{start}–{start + size - 1}"
        at = (corner[0] + size * _BYTE / 2, corner[1] + 38)
        drawing.words(at, number, size=10, anchor="middle", look="faint mono")
    for row, (above, below) in enumerate(_MARGINS):
        y = top + row * (_ROW + 12)
        drawing.words((_LEFT - 14, y + 21), above, size=12, anchor="end", look="faint")
        drawing.words((_LEFT - 14, y + 37), below, size=12, anchor="end", look="faint")
    end = int(BatchLayout.BATCH_OVERHEAD_BYTES) - rows[-1]
    corner = (_LEFT + end * _BYTE, top + 2 * (_ROW + 12))
    drawing.box(corner, (4 * _BYTE, _ROW), fill=LEAF, edge=HAIR)
    drawing.words((corner[0] + 2 * _BYTE, corner[1] + 28), "records …", anchor="middle")


def _fit(drawing: Drawing, at: Point, label: str, room: float) -> None:
    """Write a label as large as fits."""
    size = min(13.0, (room - 4) / (0.6 * len(label)))
    drawing.words(at, label, size=size, anchor="middle")


def _fill(name: str, row: int) -> str:
    if name in {"CRC", "MAGIC"}:
        return ROSE
    if name == "ATTRIBUTES":
        return SAND
    return (MIST, SKY, SKY)[row]


def _draw_bits(drawing: Drawing, top: float) -> None:
    """The attributes' bits, lowest on the right."""
    drawing.words((24, top), "attributes", size=14, look="bold")
    masks = {
        BatchAttributes.CODEC_MASK: "codec",
        BatchAttributes.TIMESTAMP_TYPE_MASK: "append time",
        BatchAttributes.TRANSACTIONAL_MASK: "transactional",
        BatchAttributes.CONTROL_MASK: "control",
        BatchAttributes.DELETE_HORIZON_MASK: "delete horizon",
    }
    width, count = 100.0, 8
    used = 0
    for mask, label in masks.items():
        bits = int(mask).bit_count()
        used = int(mask).bit_length()
        corner = (_LEFT + (count - used) * width, top + 16)
        drawing.box(corner, (bits * width, 34), fill=SAND, edge=HAIR)
        middle = corner[0] + bits * width / 2
        drawing.words((middle, top + 38), label, size=12, anchor="middle")
        number = f"bit {used - 1}" if bits == 1 else f"bits {used - bits}–{used - 1}"
        drawing.words((middle, top + 66), number, size=10, anchor="middle", look="faint mono")
    drawing.box((_LEFT, top + 16), ((count - used) * width, 34), fill="none", edge=HAIR)
    middle = _LEFT + (count - used) * width / 2
    drawing.words((middle, top + 38), "unused", size=12, anchor="middle", look="faint")
    number = f"bits {used}–{_ATTRIBUTES_BITS - 1}"
    drawing.words((middle, top + 66), number, size=10, anchor="middle", look="faint mono")


def _draw_record(drawing: Drawing, top: float) -> None:
    """One record, field by field, with the most that each takes."""
    varint, varlong = int(RecordLayout.VARINT_BYTES_MAX), int(RecordLayout.VARLONG_BYTES_MAX)
    drawing.words((24, top), "one record", size=14, look="bold")
    text = (
        "lengths and deltas are zigzag varints: small numbers take one byte, and a record's"
        f" first four fields take at most {int(RecordLayout.RECORD_OVERHEAD_BYTES_MAX)} bytes"
    )
    drawing.words((_LEFT, top), text, size=12, look="faint")
    fields = (
        ("length", f"1–{varint}", 62, LEAF),
        ("attributes", "1", 74, LEAF),
        ("time delta", f"1–{varlong}", 78, LEAF),
        ("offset delta", f"1–{varint}", 84, LEAF),
        ("key length", f"1–{varint}", 78, MIST),
        ("key", "", 78, SKY),
        ("value length", f"1–{varint}", 86, MIST),
        ("value", "", 128, SKY),
        ("headers", "count, then each", 132, MIST),
    )
    x = float(_LEFT)
    for label, size, width, fill in fields:
        drawing.box((x, top + 18), (width, 40), fill=fill, edge=HAIR)
        drawing.words((x + width / 2, top + 43), label, size=12, anchor="middle")
        drawing.words((x + width / 2, top + 76), size, size=10, anchor="middle", look="faint mono")
        x += width
    notes = """
        A batch is written into its chunks record by record; the header's place is kept free until
        it is closed. Base offset and leader epoch are the broker's to fill in, and so lie before
        what the checksum covers. A retry sends the same bytes.
        """
    drawing.lines((24, top + 118), notes)
