"""Each fault, on the request it is armed for and no other."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import Client, World, batch, part

FAILURE = ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_fail_next_answers_with_the_code() -> None:
    """As often as asked, and nothing is appended."""
    world = World()
    world.cluster.faults.fail_next(ApiKey.PRODUCE, FAILURE, times=2)
    client = world.client()

    codes = [client.produced(batch())["error_code"] for _ in range(3)]

    assert codes == [FAILURE, FAILURE, ErrorCode.NONE]
    assert len(world.cluster.records("orders")[0]) == 1


def test_a_handled_failure_has_done_the_work() -> None:
    """The client believes that it failed, and the batch is in the log."""
    world = World()
    world.cluster.faults.fail_next(ApiKey.PRODUCE, FAILURE, handled=True)

    assert world.client().produced(batch())["error_code"] == FAILURE
    assert len(world.cluster.records("orders")[0]) == 1


def _produce(client: Client, partitions: Sequence[int], **fields: Any) -> int:
    """Send one batch to each of some partitions; returns the correlation id."""
    entries = [{"index": index, "records": batch()} for index in partitions]
    topic_data = [{"name": "orders", "partition_data": entries}]
    body = {"acks": -1, "timeout_ms": 1_000, "topic_data": topic_data, **fields}
    return client.send(ApiKey.PRODUCE, 9, body)


def _parts(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every partition's answer."""
    return [part for topic in answer["responses"] for part in topic["partition_responses"]]


def test_a_handled_failure_does_not_hide_an_error() -> None:
    """Only what the broker has taken is said to have failed, in another way."""
    world = World(topics={"orders": 2})
    world.cluster.move_leader("orders", 1, to=1)
    world.cluster.faults.fail_next(
        ApiKey.PRODUCE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER, handled=True
    )
    client = world.client()

    sent = _produce(client, [1, 0, 7])

    assert [
        (it["index"], it["error_code"], it["base_offset"]) for it in _parts(client.answers()[sent])
    ] == [
        (1, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
        (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER, -1),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]
    assert [len(records) for records in world.cluster.records("orders").values()] == [1, 0]


def test_an_error_of_the_whole_answer_is_not_hidden() -> None:
    """An empty transactional id has its own error, a sound request the fault's."""
    world = World()
    world.cluster.faults.fail_next(ApiKey.INIT_PRODUCER_ID, 77, handled=True, times=2)
    client = world.client()

    body = {"transaction_timeout_ms": 1, "producer_id": -1, "producer_epoch": -1}
    rejected = client.ask(ApiKey.INIT_PRODUCER_ID, 4, {**body, "transactional_id": ""})
    accepted = client.ask(ApiKey.INIT_PRODUCER_ID, 4, {**body, "transactional_id": None})

    assert rejected["error_code"] == ErrorCode.INVALID_REQUEST
    assert accepted["error_code"] == 77


@pytest.mark.parametrize("handled", [False, True])
def test_without_an_answer_a_failure_closes_the_connection(handled: bool) -> None:
    """acks=0: nothing is written that the client does not wait for."""
    world = World()
    world.cluster.faults.fail_next(ApiKey.PRODUCE, FAILURE, handled=handled)
    client = world.client()

    client.produce(batch(), acks=0)

    assert client.stream.closed
    assert client.answers() == {}
    assert len(world.cluster.records("orders")[0]) == handled


@pytest.mark.parametrize("handled", [False, True])
def test_omit_leaves_the_first_partition_out(handled: bool) -> None:
    """The others are answered; whether its batch is in the log is the caller's choice."""
    world = World(topics={"orders": 3})
    for partition in range(3):
        world.cluster.move_leader("orders", partition, to=0)
    world.cluster.faults.omit(ApiKey.PRODUCE, handled=handled)
    client = world.client()

    sent = _produce(client, [2, 0, 1])
    answered = _parts(client.answers()[sent])

    assert [(it["index"], it["error_code"]) for it in answered] == [(0, 0), (1, 0)]
    assert [len(it) for it in world.cluster.records("orders").values()] == [1, 1, handled]


@pytest.mark.parametrize("handled", [False, True])
def test_empty_leaves_every_partition_out(handled: bool) -> None:
    """The topic is answered, and none of its partitions."""
    world = World(topics={"orders": 2})
    world.cluster.move_leader("orders", 1, to=0)
    world.cluster.faults.empty(ApiKey.PRODUCE, handled=handled)
    client = world.client()

    sent = _produce(client, [0, 1])
    answer = client.answers()[sent]

    assert [topic["name"] for topic in answer["responses"]] == ["orders"]
    assert _parts(answer) == []
    assert [len(it) for it in world.cluster.records("orders").values()] == [handled, handled]


def test_metadata_can_leave_partitions_out() -> None:
    """A topic with fewer partitions than it has, then with none."""
    world = World(topics={"orders": 3})
    world.cluster.faults.omit(ApiKey.METADATA, handled=True)
    world.cluster.faults.empty(ApiKey.METADATA, skip=1, handled=True)
    client = world.client()

    answers = [
        client.ask(ApiKey.METADATA, 12, {"topics": [{"name": "orders"}]})["topics"][0]
        for _ in range(3)
    ]

    indexes = [[it["partition_index"] for it in topic["partitions"]] for topic in answers]
    assert indexes == [[1, 2], [], [0, 1, 2]]


def test_skip_and_broker_select() -> None:
    """The n-th request of one broker is hit."""
    world = World(topics={"orders": 1})
    world.cluster.faults.fail_next(ApiKey.PRODUCE, 87, skip=1, broker=0)
    world.cluster.faults.fail_next(ApiKey.PRODUCE, 88, broker=1)
    client = world.client()

    assert [client.produced(batch())["error_code"] for _ in range(3)] == [0, 87, 0]
    assert [fault.error_code for fault in world.cluster.faults.pending()] == [88]


@pytest.mark.parametrize("handled", [False, True])
def test_delay_holds_the_answer_back(handled: bool) -> None:
    """Before its time nothing arrives; whether the work is done by then is the caller's choice."""
    world = World()
    world.cluster.faults.delay(ApiKey.PRODUCE, 100, handled=handled)
    client = world.client()

    sent = client.produce(batch())
    world.advance(99)
    early = client.answers()
    appended = len(world.cluster.records("orders")[0])
    world.advance(1)

    assert early == {}
    assert appended == handled
    assert part(client.answers()[sent])["error_code"] == ErrorCode.NONE


def test_delay_and_failure_combine() -> None:
    """Two faults may hit one request."""
    world = World()
    world.cluster.faults.delay(ApiKey.PRODUCE, 10)
    world.cluster.faults.fail_next(ApiKey.PRODUCE, FAILURE)
    client = world.client()

    sent = client.produce(batch())
    world.advance(10)

    assert part(client.answers()[sent])["error_code"] == FAILURE


@pytest.mark.parametrize("handled", [False, True])
def test_drop_silences_the_connection(handled: bool) -> None:
    """Neither this request nor those behind it are answered; other connections continue."""
    world = World()
    world.cluster.faults.drop(ApiKey.PRODUCE, handled=handled)
    client = world.client()

    client.produce(batch())
    client.produce(batch())

    assert client.answers() == {}
    assert not client.stream.closed
    assert world.client().produced(batch())["base_offset"] == int(handled)


@pytest.mark.parametrize("handled", [False, True])
def test_disconnect_closes_instead_of_answering(handled: bool) -> None:
    """With `handled` the batch is in the log."""
    world = World()
    world.cluster.faults.disconnect(ApiKey.PRODUCE, handled=handled)
    client = world.client()

    client.produce(batch())

    assert client.stream.closed
    assert client.answers() == {}
    assert len(world.cluster.records("orders")[0]) == handled


@pytest.mark.parametrize("at_byte", [0, 3, 4, 9, 20])
def test_cut_sends_the_beginning(at_byte: int) -> None:
    """That number of the response's bytes is sent, then the connection closes."""
    world = World()
    world.cluster.faults.cut(ApiKey.PRODUCE, at_byte)
    client = world.client()

    client.produce(batch())

    assert len(client.stream.outgoing) == at_byte
    assert client.stream.closed
    assert len(world.cluster.records("orders")[0]) == 1


def test_rewrite_changes_the_answer() -> None:
    """The function gets the frame from its correlation id on; its result gets a right size."""
    world = World()
    world.cluster.faults.rewrite(ApiKey.PRODUCE, lambda frame: frame[:4] + b"nonsense")
    client = world.client()

    sent = client.produce(batch())

    assert client.stream.outgoing == (12).to_bytes(4) + sent.to_bytes(4) + b"nonsense"


def test_rewrite_request_changes_what_the_broker_reads() -> None:
    """A flipped last byte is a wrong checksum to the broker."""
    world = World()
    world.cluster.faults.rewrite_request(ApiKey.PRODUCE, lambda frame: frame.replace(b"v0", b"v1"))

    assert world.client().produced(batch())["error_code"] == ErrorCode.CORRUPT_MESSAGE


def test_duplicate_handles_twice_and_answers_once() -> None:
    """Without a producer id the batch is there twice, with one only once."""
    world = World()
    world.cluster.faults.duplicate(ApiKey.PRODUCE, times=2)
    client = world.client()

    plain = client.produced(batch())["base_offset"]
    idempotent = client.produced(batch(producer_id=7, producer_epoch=0, base_sequence=0))

    assert (plain, idempotent["base_offset"]) == (0, 2)
    assert client.answers() == {}
    assert len(world.cluster.records("orders")[0]) == 3


def test_a_stalled_broker_neither_reads_nor_writes() -> None:
    """Connections stay open; after `resume` everything is answered."""
    world = World()
    client = world.client()
    client.produced(batch())
    world.cluster.faults.stall(0)

    sent = client.produce(batch())
    world.advance(60_000)
    early = client.answers()
    world.cluster.faults.resume(0)
    world.step()

    assert early == {}
    assert not client.stream.closed
    assert part(client.answers()[sent])["base_offset"] == 1


def test_clear_disarms() -> None:
    """Nothing that was armed happens."""
    world = World()
    world.cluster.faults.fail_next(ApiKey.PRODUCE, FAILURE, times=100)
    world.cluster.faults.clear()

    assert world.client().produced(batch())["error_code"] == ErrorCode.NONE


@pytest.mark.parametrize(
    ("api", "version", "body"),
    [
        (ApiKey.METADATA, 12, {"topics": [{"name": "orders"}]}),
        (ApiKey.METADATA, 1, {"topics": None}),
        (ApiKey.INIT_PRODUCER_ID, 4, {"transaction_timeout_ms": 1}),
        (ApiKey.FIND_COORDINATOR, 3, {"key": "group"}),
        (ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": ["group"]}),
        (ApiKey.API_VERSIONS, 0, {}),
        (ApiKey.CREATE_TOPICS, 5, {"topics": [{"name": "new", "num_partitions": 1}]}),
        (ApiKey.LIST_OFFSETS, 5, {"topics": [{"name": "orders", "partitions": [{}]}]}),
        (ApiKey.FETCH, 12, {"topics": [{"topic": "orders", "partitions": [{}]}]}),
    ],
)
def test_every_api_can_fail(api: ApiKey, version: int, body: dict[str, object]) -> None:
    """The code is somewhere in the response, and the response is well formed."""
    world = World()
    world.cluster.faults.fail_next(api, 77)

    answer = world.client().ask(api, version, body)

    assert "77" in str(answer)
    assert not world.cluster.failures


@pytest.mark.parametrize("api", ["Produce", 9_999, None])
def test_a_fault_of_an_unknown_request_is_rejected(api: Any) -> None:
    """It would never hit one, and a test that relied on it would show nothing."""
    world = World()
    with pytest.raises(ValueError, match=r"api must be an ApiKey, such as ApiKey\.PRODUCE, not"):
        world.cluster.faults.drop(api)
