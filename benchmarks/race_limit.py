"""The broker's limit: one batch of 1 MB, encoded once, sent again and again on one connection.

Five requests are in flight, as for an idempotent producer; nothing is encoded, checked or kept, so
no client can be faster with batches of this size on one connection.

Thread-safety: one thread, the caller's.
"""

import socket
import struct
import time
import uuid
from typing import Any

from race_clients import BATCH_BYTES, Load

from kprod._core.memory.chunk_pool import ChunkPool
from kprod._core.record.batch_builder import AppendResult, BatchBuilder
from kprod.protocol.produce_frame import (
    ProduceFrame,
    TopicRecords,
    produce_request,
)

IN_FLIGHT = 5
PRODUCE_VERSION = 3  # the oldest with record batches: its response is plain to read
POOL_BYTES = 4 << 20


def replay(load: Load) -> None:
    """Send the batch until the load is done."""
    frame, record_count = _frame(load)
    host, _, port = load.address.rpartition(":")
    load.warm_up_count = 0
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers = connection.makefile("rb")
        in_flight = 0
        load.begin()
        while load.goes_on(record_count):
            if in_flight == IN_FLIGHT:
                _check(answers, load.topic)
                in_flight -= 1
            connection.sendall(frame)
            in_flight += 1
        for _ in range(in_flight):
            _check(answers, load.topic)
        load.end()


def _frame(load: Load) -> tuple[bytes, int]:
    """One Produce request, and how many records it has."""
    pool = ChunkPool(POOL_BYTES)
    chain = pool.try_chain(large=True)
    assert chain is not None
    builder = BatchBuilder(chain, BATCH_BYTES)
    timestamp_ms = time.time_ns() // 1_000_000
    while True:
        outcome = builder.try_append(timestamp_ms, None, load.value)
        if outcome is AppendResult.BATCH_FULL:
            break
        if outcome is AppendResult.NEED_CHUNKS:
            chunk = pool.try_chunk()
            assert chunk is not None
            builder.add_chunk(chunk)
    builder.seal()
    pieces = builder.close()
    records = 0, pieces, sum(map(len, pieces))
    request = ProduceFrame(
        version=PRODUCE_VERSION,
        correlation_id=1,
        client_id="limit",
        acks=-1,
        timeout_ms=30_000,
        transactional_id=None,
        topics=[TopicRecords(load.topic, uuid.UUID(int=0), [records])],
    )
    return b"".join(bytes(piece) for piece in produce_request(request)), builder.record_count


def _check(answers: Any, topic: str) -> None:  # noqa: ANN401 - a buffered reader
    (size_bytes,) = struct.unpack(">i", answers.read(4))
    answer = answers.read(size_bytes)
    # Correlation id, one topic, its name, one partition, its index, then the code.
    (code,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(topic) + 4 + 4)
    if code:
        raise RuntimeError(f"the broker rejected the batch with code {code}")
