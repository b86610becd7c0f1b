"""Write record vectors made by other clients' record code, as JSON beside this file.

librdkafka's record code is reached only by sending, so its batches are what the embedded broker
got; the broker fills in the leader's epoch, outside the checksum, and keeps the rest.

Run from the repository's root, with the clients installed: `python tests/vectors/make_records.py
2026-11-21`, the date being the one to put into the files. `MakeRecords.java` makes the third file.
"""

import importlib.metadata
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiokafka.record.default_records as aiokafka_v2
import aiokafka.record.legacy_records as aiokafka_legacy
import confluent_kafka
import kafka.record.default_records as kafka_python_v2
import kafka.record.legacy_records as kafka_python_legacy

from kprod.broker import EmbeddedCluster
from kprod.model import Codec

HERE = Path(__file__).parent
COMMAND = "python tests/vectors/make_records.py"
TIME_MS = 1_700_000_000_000
ROOM_BYTES = 64 * 1024
LZ4 = 3

Headers = list[tuple[str, bytes | None]]
RECORDS: list[tuple[int, bytes | None, bytes | None, Headers]] = [
    (TIME_MS, b"k0", b"v0", []),
    (TIME_MS + 5, None, b"v1", [("h", b"x"), ("n", None), ("h", b"")]),
    (TIME_MS - 3, b"", b"", []),
    (TIME_MS + 5, b"k3", None, [("ключ", "重复".encode())]),
    (TIME_MS + 70_000, b"long", b"abcdefgh" * 20, []),
]


class Client(NamedTuple):
    """A client's builders, and what its old formats cannot do."""

    name: str
    v2: Any
    legacy: Any
    legacy_lz4_magics: tuple[int, ...]


CLIENTS = (
    Client(
        "kafka-python",
        kafka_python_v2.DefaultRecordBatchBuilder,
        kafka_python_legacy.LegacyRecordBatchBuilder,
        (0, 1),
    ),
    Client(
        "aiokafka",
        aiokafka_v2.DefaultRecordBatchBuilder,
        aiokafka_legacy.LegacyRecordBatchBuilder,
        (1,),
    ),
)


def vectors(client: Client) -> Iterator[dict[str, object]]:
    """Yield one vector per format, codec and producer state."""
    for magic in (0, 1):
        for codec in range(LZ4 + 1):
            if codec == LZ4 and magic not in client.legacy_lz4_magics:
                continue
            yield vector("plain", magic, codec, legacy_bytes(client, magic, codec))
    for codec in range(5):
        yield vector("plain", 2, codec, batch_bytes(client, codec, (0, -1, -1, -1)))
        yield vector("transactional", 2, codec, batch_bytes(client, codec, (1, 4242, 7, 100)))


def legacy_bytes(client: Client, magic: int, codec: int) -> bytes:
    """Return the message set of `RECORDS`, which loses their headers."""
    builder = client.legacy(magic, codec, ROOM_BYTES)
    for offset, (timestamp_ms, key, value, _) in enumerate(RECORDS):
        builder.append(offset, timestamp_ms, key, value)
    return bytes(builder.build())


def batch_bytes(client: Client, codec: int, state: tuple[int, int, int, int]) -> bytes:
    """Return the batch of `RECORDS`; state: transactional, producer id, epoch, base sequence."""
    builder = client.v2(2, codec, *state, ROOM_BYTES)
    for offset, (timestamp_ms, key, value, headers) in enumerate(RECORDS):
        builder.append(offset, timestamp_ms, key, value, headers)
    return bytes(builder.build())


def vector(name: str, magic: int, codec: int, raw: bytes) -> dict[str, object]:
    """Return the vector as the JSON has it."""
    rows = [
        [
            offset,
            timestamp_ms if magic else -1,
            None if key is None else key.hex(),
            None if value is None else value.hex(),
            [[k, None if v is None else v.hex()] for k, v in headers] if magic > 1 else [],
        ]
        for offset, (timestamp_ms, key, value, headers) in enumerate(RECORDS)
    ]
    return {"name": name, "magic": magic, "codec": codec, "hex": raw.hex(), "records": rows}


def librdkafka_vectors() -> Iterator[dict[str, object]]:
    """Yield one vector per codec, plain and idempotent."""
    names = [f"{codec.name}-{kind}" for codec in Codec for kind in ("plain", "idempotent")]
    with EmbeddedCluster(1, dict.fromkeys(names, 1)) as cluster:
        for name in names:
            codec, _, kind = name.partition("-")
            producer = confluent_kafka.Producer(
                {
                    "bootstrap.servers": cluster.bootstrap_servers,
                    "compression.type": codec.lower(),
                    "enable.idempotence": kind == "idempotent",
                    "queue.buffering.max.ms": 500,
                }
            )
            for timestamp_ms, key, value, headers in RECORDS:
                producer.produce(name, value, key, timestamp=timestamp_ms, headers=[*headers])
            producer.flush(30)
            producer.close()
            raw = b"".join(cluster.batches(name)[0])
            yield vector(kind, 2, Codec[codec], raw)


def write(name: str, version: str, date: str, rows: Iterator[dict[str, object]]) -> None:
    """Write a client's file."""
    head = {"client": name, "version": version, "command": COMMAND, "date": date}
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    opening = json.dumps(head, indent=0)[:-2]
    path = HERE / f"records_{name.replace('-', '_')}.json"
    path.write_text(f'{opening},\n"vectors": [\n{lines}\n]\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    today = sys.argv[1]
    for each in CLIENTS:
        write(each.name, importlib.metadata.version(each.name), today, vectors(each))
    write("librdkafka", confluent_kafka.libversion()[0], today, librdkafka_vectors())
