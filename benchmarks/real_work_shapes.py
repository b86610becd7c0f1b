"""Records as services send them: JSON values, keys that come again, several partitions, a codec.

A shape is fixed by its numbers: every client, and every run, sends the same values and keys in the
same order.

Thread-safety: immutable.
"""

import itertools
import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

DISTINCT_VALUES = 1_000
SEED = 20_260_101
WORDS = (
    *("accepted", "aisle", "amount", "berlin", "carrier", "cash", "delayed", "express", "gift"),
    *("invoice", "krakow", "lisbon", "express", "locker", "manual", "open", "order", "paid"),
    *("parcel", "pending", "porto", "refund", "return", "rush", "sent", "standard", "vienna"),
)

CodecName = Literal["none", "gzip", "snappy", "lz4", "zstd"]


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of work.

    Attributes:
        value_bytes: About the size of a value; 100 is one constant value, as in the headline.
        keys: How many different keys come in turn; 0 for records without key.
        partitions: Partitions of the topic.
        codec: Kafka's name of it.
    """

    value_bytes: int
    keys: int
    partitions: int
    codec: CodecName

    @property
    def label(self) -> str:
        """The shape as a heading, such as "330 B, 1,000 keys, 12 partitions, lz4"."""
        keys = f"{self.keys:,} keys" if self.keys else "no key"
        return f"{self.value_bytes:,} B, {keys}, {self.partitions:,} partitions, {self.codec}"

    def records(self, count: int) -> list[tuple[bytes | None, bytes]]:
        """Return keys and values of `count` records, the same ones at each call."""
        return list(itertools.islice(self._endless(), count))

    def blocks(self, count: int) -> Iterator[list[tuple[bytes | None, bytes]]]:
        """Yield blocks of `count` records without end; as many differ as there are keys."""
        block_count = max(1, math.ceil(self.keys / count))
        whole = self.records(block_count * count)
        return itertools.cycle([whole[at : at + count] for at in range(0, len(whole), count)])

    def values(self) -> list[bytes]:
        """Return the different values, in the order in which they come again and again."""
        if self.value_bytes == 100:  # noqa: PLR2004 - the headline's
            return [b"v" * self.value_bytes]
        rng = random.Random(SEED + self.value_bytes)
        return [_document(rng, number, self.value_bytes) for number in range(DISTINCT_VALUES)]

    def _endless(self) -> Iterator[tuple[bytes | None, bytes]]:
        values = itertools.cycle(self.values())
        if not self.keys:
            return ((None, value) for value in values)
        rng = random.Random(SEED)
        keys = [b"customer-%07d" % number for number in range(self.keys)]
        return ((keys[rng.randrange(self.keys)], value) for value in values)


def _document(rng: random.Random, number: int, size: int) -> bytes:
    """Return one order as JSON; words fill it up to the size."""
    document = {
        "id": f"{rng.getrandbits(64):016x}",
        "sequence": number,
        "placed_at": f"2026-01-{1 + number % 28:02d}T{number % 24:02d}:{rng.randrange(60):02d}:07Z",
        "customer": {"number": rng.randrange(10**7), "city": rng.choice(WORDS)},
        "amount": rng.randrange(10**6) / 100,
        "currency": rng.choice(("EUR", "PLN", "USD")),
        "note": "",
    }
    words = []
    left = size - len(json.dumps(document))
    while left > 0:
        words.append(rng.choice(WORDS))
        left -= len(words[-1]) + 1
    document["note"] = " ".join(words)
    return json.dumps(document).encode()
