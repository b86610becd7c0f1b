"""Arrow arrays, sent: whatever they claim, nothing is read past what they claim."""

import random
import struct

from kprod._core.memory.chunk_pool import ChunkChain, ChunkPool
from kprod._core.outcome.batch_result import BatchResult
from kprod._core.record.batch_builder import BatchBuilder
from kprod._core.send.partition_appender import PartitionAppender, TopicRoutes
from kprod.clock import SystemClock
from kprod.producer import bulk
from kprod.producer.send_rules import SendRules
from tests._core.plain_path import PlainPath
from tests.fuzz.arrow_arrays import COLUMNS, HEAD, TABLES, Field, NotBuiltError, Table
from tests.fuzz.target import INTERESTING, FindingError, Target, planted, signature
from tests.oracle import record_v2

ROWS = 5
PARTITION_COUNT = 3
POINTERS_MAX = 16
SMALL_MAX = 64


class _Batch:
    """A queue's contents."""

    def __init__(self, queue: PartitionAppender, chain: ChunkChain) -> None:
        self.builder = BatchBuilder(chain, 1 << 16)
        self.result = BatchResult(queue.topic, queue.partition)


class _Path(PlainPath):
    """A send path without a sender."""

    def __init__(self) -> None:
        queues = [PartitionAppender("fuzz", partition) for partition in range(PARTITION_COUNT)]
        rules = SendRules(max_block_ms=0, record_bytes_max=1 << 12)
        head = TopicRoutes("fuzz", queues)
        super().__init__(ChunkPool(1 << 20), SystemClock(), rules, {"fuzz": head})
        self.heads = queues

    def make_batch(self, queue: PartitionAppender, chain: ChunkChain) -> _Batch:
        return _Batch(queue, chain)

    def roll_sticky(self, head: TopicRoutes) -> None:
        head.sticky = (head.sticky + 1) % PARTITION_COUNT

    def await_partition(self, head: TopicRoutes, partition: int, timeout_ms: int) -> None:
        raise ValueError(head.name, partition, timeout_ms)

    def too_large_text(self, topic: str, size_bytes: int) -> str:
        return f"{topic}: {size_bytes}"


def seeds() -> list[bytes]:
    """Each table with rows of all kinds; sliced, too."""
    return [
        bytes((number,)) + _array(Field("", "+s", columns), ROWS, offset)
        for number, columns in enumerate(TABLES)
        for offset in (0, 2)
    ]


def _array(field: Field, rows: int, offset: int) -> bytes:
    """An honest array."""
    buffers, count = _buffers_of(field.format, rows + offset)
    head = HEAD.pack(rows, 0 if field.format == "n" else 1, offset, count, len(field.children), 0)
    below = rows + offset if field.format == "+s" else 2 * (rows + offset)
    children = b"".join(_array(child, below, 0) for child in field.children)
    dictionary = b"" if field.dictionary is None else _array(field.dictionary, 3, 0)
    return head + buffers + children + dictionary


def _buffers_of(form: str, rows: int) -> tuple[bytes, int]:
    """The content of an honest array's buffers, and how many there are."""
    validity = _sized(bytes((0xFD,)) * ((rows + 7) // 8))
    if form == "n":
        return b"", 0
    if form == "+s":
        return validity, 1
    if form in {"z", "u", "Z", "U", "+l", "+m", "+L"}:
        step = 2 if form.startswith("+") else 4
        layout = "q" if form in {"Z", "U", "+L"} else "i"
        offsets = struct.pack(f"<{rows + 1}{layout}", *range(0, step * (rows + 1), step))
        content = b"" if form.startswith("+") else _sized(b"text" * rows)
        return validity + _sized(offsets) + content, 2 if form.startswith("+") else 3
    if form in {"vz", "vu"}:
        # The long ones end where their buffer does.
        views = b"".join(
            struct.pack("<iiii", 14, 0x74786574, row // 2 % 2, 6)
            if row % 2
            else struct.pack("<i12s", 4, b"text")
            for row in range(rows)
        )
        sizes = struct.pack("<qq", 20, 20)
        return validity + _sized(views) + sizes + _sized(b"text" * 5) * 2, 5
    if form.startswith("w:"):
        return validity + _sized(b"abc" * rows * 2), 2
    width = {"c": 1, "s": 2, "i": 4, "I": 4}.get(form, 8)
    numbers = b"".join((row % 3).to_bytes(width, "little") for row in range(rows))
    return validity + _sized(numbers), 2


def _sized(content: bytes) -> bytes:
    return struct.pack("<H", len(content)) + content


def number(rng: random.Random, content: bytes) -> bytes:
    """Set some number of the C structures or buffers to something remarkable, or a little off."""
    width, layout = rng.choice(((8, "<q"), (4, "<i")))
    if len(content) < width + 1:
        return content
    place = 1 + rng.randrange(len(content) - width)
    (present,) = struct.unpack_from(layout, content, place)
    near = present + rng.choice((-9, -1, 1, 1, 3, 9, 200))
    chosen = rng.choice((*INTERESTING, near, near, near)) & (2 ** (8 * width) - 1)
    raw: bytes = chosen.to_bytes(width, "little")
    return content[:place] + raw + content[place + width :]


def head_field(rng: random.Random, content: bytes) -> bytes:
    """Change one field of one array's head: they follow the table's number, or a buffer."""
    heads: list[int] = [
        place
        for place in range(1, max(len(content) - HEAD.size, 1))
        if content[place + 1 : place + 8] == bytes(7) and content[place] < POINTERS_MAX
    ]
    if not heads:
        return content
    place = rng.choice(heads)
    (present,) = struct.unpack_from("<q", content.ljust(place + 8, b"\0"), place)
    chosen = rng.choice((present + 1, present - 1, 0, -1, 2 * present, *INTERESTING))
    raw: bytes = (chosen & (2**64 - 1)).to_bytes(8, "little")
    return content[:place] + raw + content[place + 8 :]


def nudge(rng: random.Random, content: bytes) -> bytes:
    """Make one small number one more or less: offsets, lengths and sizes at their very borders."""
    places = [
        place
        for place in range(1, len(content) - 3)
        if content[place + 1 : place + 4] == bytes(3) and 0 < content[place] < SMALL_MAX
    ]
    if not places:
        return content
    place = rng.choice(places)
    return content[:place] + bytes((content[place] + rng.choice((-1, 1)),)) + content[place + 1 :]


def check(content: bytes) -> str:
    """Send a table; every row is sent or rejected, and sent ones are in whole batches."""
    try:
        table = Table(content)
    except NotBuiltError:
        return "not built"
    path = _Path()
    names = {COLUMNS[field.name]: field.name for field in table.columns}
    try:
        receipt = bulk.send_arrow(path, "fuzz", table, {"value": "value", **names})
    except ValueError as error:
        return signature(error)
    sent = [_count(batch) for head in path.heads for batch in head.batches]
    if receipt.record_count != table.array.length:
        raise FindingError(f"{receipt.record_count} of {table.array.length} rows")
    if sum(sent) + receipt.failed_count != receipt.record_count:
        raise FindingError(
            f"{sent} sent and {receipt.failed_count} rejected of {receipt.record_count}"
        )
    faults = {signature(failure.error) for failure in receipt.failures()}
    return f"{len(table.columns)} columns, {min(sum(sent), 3)} sent, {sorted(faults)}"


def _count(batch: _Batch) -> int:
    """Records of a batch, which must be whole."""
    (decoded,) = record_v2.decode_batches(b"".join(batch.builder.close()))
    return len(decoded.records)


TARGET = Target(
    name="arrow",
    seeds=seeds,
    mutators=(number, nudge, nudge, head_field),
    check=check,
    planted=planted("arrow"),
)
