"""Each fault, on the request it is armed for and no other."""

import pytest

from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import World, batch, part

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
    """Neither this request nor those behind it are answered; other connections go on."""
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
    """So many bytes of the answer leave, then the connection closes."""
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
    """The code is somewhere in the answer, and the answer is well formed."""
    world = World()
    world.cluster.faults.fail_next(api, 77)

    answer = world.client().ask(api, version, body)

    assert "77" in str(answer)
    assert not world.cluster.failures
