"""Fetch, ListOffsets, Metadata, InitProducerId: corners that clients seldom come near."""

import pytest

from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from kprod.record.reader import read_batches
from tests.broker.world import World, batch, part


@pytest.mark.parametrize(
    ("session_id", "session_epoch", "code", "given_id"),
    [
        (0, 0, ErrorCode.NONE, 1),
        (0, -1, ErrorCode.NONE, 0),
        (5, -1, ErrorCode.NONE, 0),
        (5, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (0, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
    ],
)
def test_a_fetch_session_begins_or_ends(
    session_id: int, session_epoch: int, code: int, given_id: int
) -> None:
    """Both are full fetches; there is no session to continue with."""
    body = {"session_id": session_id, "session_epoch": session_epoch, "topics": []}

    answer = World().client().ask(ApiKey.FETCH, 12, body)

    assert (answer["error_code"], answer["session_id"]) == (code, given_id)


def test_aborted_transactions_are_told_to_readers_that_ask() -> None:
    """The list is null where uncommitted records are read too, as in Kafka."""
    client = World().client()
    client.produced(batch())
    entry = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}
    body = {
        "min_bytes": 1,
        "max_bytes": 1_000,
        "session_epoch": -1,
        "topics": [{"topic": "orders", "partitions": [entry]}],
    }

    told = [
        part(client.ask(ApiKey.FETCH, 12, {**body, "isolation_level": level})) for level in (0, 1)
    ]

    assert [it["aborted_transactions"] for it in told] == [None, []]


def test_a_partition_twice_in_list_offsets_is_rejected() -> None:
    """It is answered once."""
    entry = {"partition_index": 0, "timestamp": -1}
    body = {"topics": [{"name": "orders", "partitions": [entry, entry]}]}

    (topic,) = World().client().ask(ApiKey.LIST_OFFSETS, 5, body)["topics"]

    (answer,) = topic["partitions"]
    assert answer["error_code"] == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("isolation_level", "offset"), [(0, 2), (1, 0)])
def test_a_new_leader_knows_its_end_while_a_transaction_is_open(
    isolation_level: int, offset: int
) -> None:
    """Only a high watermark that may still fall keeps the end from being told (KIP-207)."""
    world = World()
    client = world.client()
    encoded = memoryview(
        bytearray(batch(2, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True))
    )
    partition = world.cluster._kprod.engine.partition("orders", 0)
    partition.store(next(read_batches(encoded)), encoded, 0)
    world.cluster.truncate("orders", 0, 2)  # a new epoch, and nothing is lost
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}]

    body = {"isolation_level": isolation_level, "topics": topics}
    (topic,) = client.ask(ApiKey.LIST_OFFSETS, 5, body)["topics"]

    (answer,) = topic["partitions"]
    assert (answer["error_code"], answer["offset"]) == (ErrorCode.NONE, offset)


def test_a_topic_twice_in_metadata_is_described_once() -> None:
    """The response is about topics, not about the question."""
    body = {"topics": [{"name": "orders"}, {"name": "orders"}]}

    (topic,) = World().client().ask(ApiKey.METADATA, 9, body)["topics"]

    assert topic["name"] == "orders"


@pytest.mark.parametrize(("producer_id", "producer_epoch"), [(5, -1), (-1, 3)])
def test_half_an_identity_is_rejected(producer_id: int, producer_epoch: int) -> None:
    """A producer id goes with an epoch."""
    body = {
        "transaction_timeout_ms": 1_000,
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
    }

    answer = World().client().ask(ApiKey.INIT_PRODUCER_ID, 4, body)

    assert answer["error_code"] == ErrorCode.INVALID_REQUEST


def test_batches_before_one_of_zstd_are_read_by_old_clients() -> None:
    """It is rejected only where it comes first."""
    client = World().client()
    sent = [batch(codec=1), batch(2), batch(codec=4), batch()]
    for records in sent:
        client.produced(records)

    for version in range(4, 10):
        read = client.fetched(0, version=version)
        assert (read["error_code"], len(read["records"])) == (0, len(sent[0]) + len(sent[1]))
        code = client.fetched(3, version=version)["error_code"]
        assert code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
