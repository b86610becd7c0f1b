"""An object of each extension type as kprod makes it: by a call, or out of a producer."""

import asyncio
import gc
import itertools
import os
import socket
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from kprod._core import clock, reader_claim
from kprod._core.aio import async_send
from kprod._core.aio import loop_batch_waiters as delivery_wait
from kprod._core.aio import loop_mailbox as loop_calls
from kprod._core.arrow import (
    arrow_batches,
    arrow_plan,
    arrow_records,
    arrow_rows,
    arrow_send,
    arrow_source,
)
from kprod._core.json.json_rows import json_objects
from kprod._core.memory import chunk, memory_waiter
from kprod._core.memory import chunk_pool as chunks
from kprod._core.metrics import counters as counting
from kprod._core.outcome import batch_result
from kprod._core.record import batch_builder as batch
from kprod._core.record import (
    batch_reader,
    compression_buffer,
    decompression,
    kept_records,
    message_set_builder,
    message_set_reader,
    offset_map,
    record_iterator,
)
from kprod._core.record.aborted_transactions import AbortedTransactions
from kprod._core.record.batch_ends import BatchEnd
from kprod._core.send import bulk_account as account
from kprod._core.send import bulk_columns, bulk_completion, bulk_share
from kprod._core.send import bulk_send as bulk
from kprod._core.send.partition_appender import PartitionAppender, ReservedChunks, TopicRoutes
from kprod._core.socket_io import owned_descriptor
from kprod._core.timer import timer_task, wheel, wheel_level
from kprod._core.timer import watch_lists as watch
from kprod._core.turn_lock import TurnLock
from kprod._core.wire.fetch_frames import LoneFetch
from kprod._core.wire.wire_bounds import Bounds
from kprod.cluster.awaited_version import AwaitedVersion
from kprod.cluster.metadata_waiters import MetadataWaiters
from kprod.config import SecurityConfig
from kprod.config.consumer_config import ConsumerConfig
from kprod.consumer.activity import Activity
from kprod.consumer.assignment import Assignment
from kprod.consumer.consumer_wiring import ConsumerEnvironment, wired
from kprod.consumer.deserializers import RecordDeserializers
from kprod.consumer.direct_read import DirectRead
from kprod.consumer.fetch_buffer import FetchBuffer, FetchedBlock, FetchedStep, ResponseMemory
from kprod.consumer.fetch_listener import FetchCounts
from kprod.consumer.fetch_repeat import FetchRepeat
from kprod.consumer.fetch_request import FetchRequest, FetchTerms
from kprod.consumer.fetch_session import FetchSession, SessionRequest, Wanted
from kprod.consumer.iterator_chunk import IteratorChunk
from kprod.consumer.mailbox import Mailbox
from kprod.consumer.open_block import DecodingTerms, OpenBlock
from kprod.consumer.parked_blocks import ParkedBlocks
from kprod.consumer.position import AssignedPartition, Place, new_start
from kprod.consumer.read_replica import ReadReplicas
from kprod.lifetime.loop_thread import LoopThread
from kprod.model import Acks, TopicPartition
from kprod.network.channel import Channel
from kprod.network.client_request import ClientRequest, Outcome
from kprod.network.epoll_selector import EpollSelector
from kprod.network.framing import FrameReader
from kprod.network.outgoing import OutgoingFrame
from kprod.network.resolver import ThreadResolver
from kprod.network.response_wait import ResponseWait
from kprod.network.sleep_hook import SleepHook
from kprod.network.socket_wait import EpollSocketWait, SocketWait
from kprod.network.tls_context import make_context
from kprod.network.tls_errors import TlsPeer
from kprod.network.tls_transport import TlsTransport
from kprod.network.transport import PlainTransport
from kprod.producer.direct_path.direct_path import DirectPath
from kprod.producer.partitioner import Weights
from kprod.producer.produce_request import ProduceTerms
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import request_codec
from kprod.protocol.produce_frame import ProduceFrame, TopicRecords
from kprod.record import blocks
from tests.producer.stage import Stage, topic_id_of

SEARCHED = 200_000  # objects of a producer, at most


def _stage() -> Stage:
    """A producer with a record in flight, and one that is not sent yet."""
    stage = Stage({"orders": [1]}, linger_ms=5)
    stage.put(b"in flight")
    stage.run(10)
    stage.producer.send("orders", b"waits", on_delivery=lambda *_: None)
    Stage.opened.clear()  # no test closes it: the process ends
    return stage


def _found(kind: type) -> Any:
    """The first object of a type that a producer leads to, nearest first."""
    seen: set[int] = set()
    level: list[Any] = [_stage()]
    while level and len(seen) < SEARCHED:
        below = []
        for each in level:
            if type(each) is kind:
                return each
            if id(each) in seen or isinstance(each, type) or type(each).__name__ == "module":
                continue
            seen.add(id(each))
            below += gc.get_referents(each)
        level = below
    raise LookupError(f"a producer leads to no {kind.__name__}")


def _pool() -> chunks.ChunkPool:
    return chunks.ChunkPool(1 << 20)


def _chain() -> chunks.ChunkChain:
    found = _pool().try_chain()
    assert found is not None
    return found


def _builder() -> batch.BatchBuilder:
    made = batch.BatchBuilder(_chain(), 4_096)
    made.try_append(1, b"key", b"value", [("name", b"x")])
    return made


def _batch_bytes() -> bytes:
    return b"".join(bytes(piece) for piece in _builder().close())


def _record_block() -> blocks.RecordBlock:
    return blocks.RecordBlock(_batch_bytes(), blocks.PartitionStamp("orders", 0), 0)


def _record_batch() -> Any:
    return next(batch_reader.BatchReader(_batch_bytes()))


def _message_bytes(codec: int = 0) -> bytes:
    return message_set_builder.encode_message_set(
        [(0, 1, b"key", b"value")], magic=1, codec=codec, compress=lambda _, payload, __: payload
    )


def _message_entry(codec: int = 0) -> message_set_reader.MessageEntry:
    return next(
        message_set_reader.MessageSetReader(
            _message_bytes(codec), decompress=lambda _, payload, __: payload
        )
    )


def _table() -> Any:
    return pa.table({"value": [b"a", None], "key": ["k", "l"], "n": [0, 1]})


def _source() -> arrow_source.ArrowSource:
    return arrow_source.ArrowSource(_table())


def _rows() -> arrow_rows.ArrowRows:
    return arrow_rows.ArrowRows(_source(), {"value": "value", "key": "key", "partition": "n"})


def _arrow_batches() -> arrow_batches.ArrowBatches:
    head = TopicRoutes("orders", [])
    return arrow_batches.ArrowBatches(_stage().producer._kprod.path, head, account.BulkAccount())


def _result() -> batch_result.BatchResult:
    return batch_result.BatchResult("orders", 0)


def _record_future() -> Any:
    return _stage().producer.send("orders", b"x")


async def _in_a_loop(make: Callable[[], Any]) -> Any:
    await asyncio.sleep(0)
    return make()


def _sending() -> Any:
    path = async_send.AsyncSendPath()
    path.send_path = _stage().producer._kprod.path
    return async_send.AsyncSendMethod(path).send("orders", b"x")


def _tls_transport() -> TlsTransport:
    config = SecurityConfig.parse({"security_protocol": "SSL"})
    peer = TlsPeer("localhost:1", "localhost", config)
    return TlsTransport(PlainTransport(_socket()), make_context(config), peer)


def _socket() -> socket.socket:
    return socket.socketpair()[0]


def _direct_path() -> DirectPath:
    producer = _stage().producer
    return DirectPath(
        producer._kprod.sender,
        producer._kprod.client,
        producer._kprod.accumulator,
        clock=clock.ManualClock(),
        path=producer._kprod.path,
        request_timeout_ms=10,
    )


def _loop_thread() -> LoopThread:
    return LoopThread(
        "sender",
        _stage().producer._kprod.sender.run_once,
        clock.ManualClock(),
        settles=lambda _: True,
        on_death=lambda _: None,
        last_steps=(),
    )


def _engine() -> Any:
    config = ConsumerConfig.parse({"bootstrap_servers": "localhost:9"})
    return wired(config, ConsumerEnvironment(is_threaded=False))


def _direct_read() -> DirectRead:
    parts = _engine().parts
    return DirectRead(
        parts.client,
        parts.fetcher,
        parts.buffer,
        parts.mailbox,
        repeat=_fetch_repeat(),
        clock=clock.ManualClock(),
        request_timeout_ms=10,
    )


def _fetch_repeat() -> FetchRepeat:
    parts = _engine().parts
    return FetchRepeat(
        parts.fetcher, parts.metadata, plan=parts.plan, buffer=parts.buffer, topics=parts.topics
    )


def _ignore_fetched(*_: object) -> None:
    """Take no notice of an outcome."""


def _fetch_terms() -> FetchTerms:
    config = ConsumerConfig.parse({"bootstrap_servers": "localhost:9"})
    return FetchTerms(config.fetch_settings())


def _fetch_request() -> FetchRequest:
    part = SessionRequest(1, 0, {}, [])
    return FetchRequest(1, FetchSession(), part, 1_000, (4, 17), _fetch_terms(), _ignore_fetched)


def _block() -> FetchedBlock:
    partition = AssignedPartition(TopicPartition("orders", 0), new_start(0))
    records = memoryview(_batch_bytes())
    return FetchedBlock(
        partition, partition.start.number, 0, records, (), ResponseMemory(1_000), 1, -1
    )


def _wanted() -> Wanted:
    return Wanted(
        _block().partition,
        1,
        topic_id=uuid.UUID(int=1),
        leader_epoch=0,
        offset=0,
        last_epoch=0,
        bytes_max=1_000,
    )


def _decoding_terms() -> DecodingTerms:
    return DecodingTerms(
        reads_committed=False,
        check_crcs=True,
        as_views=False,
        deserializers=RecordDeserializers(None, None),
    )


def _open_block() -> OpenBlock:
    return OpenBlock(_block(), _decoding_terms())


def _iterator_chunk() -> IteratorChunk:
    block = _open_block()
    records = block.take(5)
    return IteratorChunk(block, records, records, 1)


class _Watched(watch.WatchedTask):
    """An operation that may be completed."""

    def on_complete(self) -> None:
        """Do nothing."""

    def on_expire(self) -> None:
        """Do nothing."""


_MADE: dict[str, Callable[[], Any]] = {
    "ReservedChunks": ReservedChunks,
    "PartitionAppender": lambda: PartitionAppender("orders", 0),
    "AwaitedVersion": AwaitedVersion,
    "TopicRoutes": lambda: TopicRoutes("orders", [PartitionAppender("orders", 0)]),
    "SendPath": lambda: _stage().producer._kprod.path,
    "BatchOpener": lambda: _stage().producer._kprod.path,
    "SendMethod": lambda: _stage().producer,
    "SendHooks": lambda: _stage().producer._kprod.support,
    "ArrowRows": _rows,
    "JsonText": lambda: json_objects(_table().to_batches()[0], lambda _: 0)[0],
    "ArrowBatches": _arrow_batches,
    "BlockPlan": lambda: arrow_plan.BlockPlan(
        _stage().producer._kprod.path, TopicRoutes("orders", []), _rows()
    ),
    "ArrowCall": lambda: arrow_send.ArrowCall(_stage().producer._kprod.path, "orders", _rows()),
    "ArrowSource": _source,
    "AsyncSendPath": async_send.AsyncSendPath,
    "AsyncSendMethod": lambda: async_send.AsyncSendMethod(async_send.AsyncSendPath()),
    "Sending": _sending,
    "LoopMemoryWaiter": lambda: asyncio.run(
        _in_a_loop(lambda: async_send.LoopMemoryWaiter(1, False, 2_048))
    ),
    "BatchBuilder": _builder,
    "CompressionBuffer": compression_buffer.CompressionBuffer,
    "BufferHold": lambda: record_iterator.BufferHold(b"abc"),
    "PartitionStamp": lambda: blocks.PartitionStamp("orders", 0),
    "AbortedTransactions": lambda: AbortedTransactions([(1, 0)]),
    "RecordBlock": _record_block,
    "ConsumerRecord": lambda: _record_block().take(1)[0],
    "ArrowColumns": arrow_records.ArrowColumns,
    "Bounds": lambda: Bounds(memory_bytes=1_024, totals={"topics": 1}),
    "BatchReader": lambda: batch_reader.BatchReader(_batch_bytes()),
    "RecordBatch": _record_batch,
    "RecordIterator": lambda: iter(_record_batch()),
    "OffsetMap": lambda: offset_map.OffsetMap(1_000, bytes(16)),
    "KeptRecords": lambda: kept_records.KeptRecords(_record_batch(), None, False),
    "Column": lambda: bulk_columns.Column([b"a", b"b"], "values"),
    "BulkCall": lambda: bulk.BulkCall(_stage().producer._kprod.path, "orders"),
    "Chunk": lambda: chunk.Chunk(64),
    "ChunkPart": lambda: next(
        p for p in itertools.chain(_builder().close()) if type(p) is chunk.ChunkPart
    ),
    "ChunkPool": _pool,
    "ReaderClaim": lambda: reader_claim.ReaderClaim(lambda _: None, lambda: None),
    "ResponseMemory": lambda: ResponseMemory(1_000),
    "FetchedBlock": _block,
    "FetchedStep": lambda: FetchedStep(_block().partition, 1, lambda: None),
    "FetchBuffer": lambda: FetchBuffer(1_000, lambda: None),
    "OpenBlock": _open_block,
    "DecodingTerms": _decoding_terms,
    "Start": lambda: new_start(1),
    "Place": lambda: Place(1, 2),
    "Activity": Activity,
    "Assignment": Assignment,
    "ConsumerParts": lambda: _engine().parts,
    "MetadataWaiters": MetadataWaiters,
    "TurnLock": TurnLock,
    "Decompression": lambda: decompression.Decompression(1_000),
    "ParkedBlocks": ParkedBlocks,
    "IteratorChunk": _iterator_chunk,
    "HandOver": lambda: _engine().parts.hand_over,
    "AssignedPartition": lambda: _block().partition,
    "ConsumerLoop": lambda: _engine().parts.loop,
    "BatchEnd": lambda: BatchEnd(1, 0),
    "DirectRead": _direct_read,
    "Fetcher": lambda: _engine().parts.fetcher,
    "FetchCounts": FetchCounts,
    "FetchPlan": lambda: _engine().parts.plan,
    "FetchRepeat": _fetch_repeat,
    "FetchRequest": _fetch_request,
    "FetchTerms": _fetch_terms,
    "LoneFetch": LoneFetch,
    "SessionRequest": lambda: SessionRequest(1, 0, {}, []),
    "FetchSession": FetchSession,
    "ReadReplicas": lambda: ReadReplicas(_engine().parts.metadata, 1_000),
    "Reading": lambda: _engine().reading,
    "TopicWatch": lambda: _engine().parts.topics,
    "Wanted": _wanted,
    "Mailbox": Mailbox,
    "Selection": lambda: _engine().selection,
    "MemoryWaiter": lambda: memory_waiter.MemoryWaiter(1, False, 2_048),
    "ChunkChain": _chain,
    "SystemClock": clock.SystemClock,
    "ManualClock": clock.ManualClock,
    "Deadline": lambda: clock.Deadline(5),
    "Counting": lambda: counting.Counting(clock.ManualClock(), 10),
    "ProducerCounters": lambda: counting.Counting(clock.ManualClock(), 10).producer,
    "TopicCounters": lambda: counting.Counting(clock.ManualClock(), 10).make_topic("orders"),
    "NodeCounters": lambda: counting.Counting(clock.ManualClock(), 10).make_node(1),
    "NotCounting": counting.NotCounting,
    "BatchObserver": batch_result.BatchObserver,
    "LoopBatchWaiters": delivery_wait.LoopBatchWaiters,
    "DeliveryWait": lambda: delivery_wait.DeliveryWait(_record_future()),
    "BatchResult": _result,
    "RecordFuture": _record_future,
    "LoopCall": loop_calls.LoopCall,
    "LoopMailbox": lambda: loop_calls.LoopMailbox(asyncio.new_event_loop()),
    "LoopSignal": lambda: asyncio.run(_in_a_loop(loop_calls.LoopSignal)),
    "Source": lambda: message_set_reader.Source(_message_bytes(), True),
    "MessageSetReader": lambda: message_set_reader.MessageSetReader(_message_bytes()),
    "MessageEntry": _message_entry,
    "WrappedRecords": lambda: iter(_message_entry(codec=1)),
    "OwnedDescriptor": lambda: owned_descriptor.OwnedDescriptor(os.eventfd(0)),
    "CompiledCoroutine": lambda: delivery_wait.DeliveryWait(_record_future()),
    "BulkCompletion": bulk_completion.BulkCompletion,
    "BulkAccount": account.BulkAccount,
    "BatchShare": lambda: bulk_share.BatchShare(account.BulkAccount(), _result()),
    "TimerTask": lambda: timer_task.TimerTask(lambda: None),
    "WatchedTask": lambda: _Watched(5),
    "WatchLists": lambda: watch.WatchLists(4),
    "WheelLevel": lambda: wheel_level.WheelLevel(1, 20, 0),
    "TimingWheel": lambda: wheel.TimingWheel(0),
    "ResponseWait": lambda: ResponseWait(EpollSocketWait()),
    "SleepHook": lambda: SleepHook(1_000),
    "SocketWait": SocketWait,
    "EpollSocketWait": EpollSocketWait,
    "Channel": lambda: Channel(PlainTransport(_socket()), FrameReader()),
    "EpollSelector": EpollSelector,
    "DirectPath": _direct_path,
    "FrameReader": FrameReader,
    "MessageCodec": lambda: request_codec(ApiKey.METADATA, 12),
    "OutgoingFrame": lambda: OutgoingFrame([b"abc"]),
    "Outcome": lambda: Outcome(node_id=1, version=1, was_written=True, latency_ms=1, now_ms=1),
    "ClientRequest": lambda: ClientRequest(
        node_id=1, api_key=ApiKey.METADATA, on_complete=lambda _: None, body={"topics": []}
    ),
    "PlainTransport": lambda: PlainTransport(_socket()),
    "TlsTransport": _tls_transport,
    "ProduceFrame": lambda: ProduceFrame(
        version=9,
        correlation_id=1,
        client_id="a",
        acks=-1,
        timeout_ms=1,
        transactional_id=None,
        topics=[],
    ),
    "ProduceTerms": lambda: ProduceTerms(
        _stage().producer._kprod.delivery, acks=Acks.ALL, timeout_ms=1, first=9
    ),
    "LoopThread": _loop_thread,
    "ThreadResolver": lambda: ThreadResolver(lambda: None),
    "TopicRecords": lambda: TopicRecords("orders", topic_id_of("orders"), []),
    "Weights": lambda: Weights([0, 1], [1, 2], 0),
}


def made(kind: type) -> Any:
    """Make an object of this type, or of one that is derived from it.

    Args:
        kind: An extension type of kprod.

    Returns:
        A new object, in the state that kprod leaves it in.

    Raises:
        LookupError: kprod makes none that could be had.
    """
    recipe = _MADE.get(kind.__name__)
    return recipe() if recipe is not None else _found(kind)
