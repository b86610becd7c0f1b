"""Calls that other libraries allow are rejected with the call that is meant."""

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kprod
from kprod.aio import AsyncProducer
from kprod.broker.cluster import EmbeddedCluster
from kprod.errors import KprodError, RecordTooLarge
from tests.producer.stage import Stage

COPIES: list[Callable[[Any], object]] = [
    copy.copy,
    copy.deepcopy,
    pickle.dumps,
    lambda it: pickle.dumps(it, 0),
]


OWNERS = (
    *("Producer", "AsyncProducer", "Consumer", "AsyncConsumer", "EmbeddedCluster", "RecordFuture"),
)


@pytest.fixture(params=OWNERS)
def rejecting(request: pytest.FixtureRequest) -> Iterator[object]:
    """An object that owns what cannot be in two places."""
    if request.param == "Consumer":
        with kprod.Consumer(bootstrap_servers="localhost:1") as consumer:
            yield consumer
    elif request.param == "AsyncConsumer":
        yield kprod.AsyncConsumer(bootstrap_servers="localhost:1")
    else:
        yield _owner(request.param)


def _owner(name: str) -> object:
    if name == "EmbeddedCluster":
        return EmbeddedCluster(1)
    producer = Stage({"orders": [1]}).producer
    if name == "AsyncProducer":
        return AsyncProducer(engine=producer)
    return producer if name == "Producer" else producer.send("orders", b"x")


@pytest.mark.parametrize("duplicate", COPIES)
def test_no_copies_of_what_owns_a_thread(
    rejecting: object, duplicate: Callable[[Any], object]
) -> None:
    """The text names the class and says what to do instead."""
    with pytest.raises(TypeError, match=r"cannot be pickled or copied.*;") as raised:
        duplicate(rejecting)
    assert type(rejecting).__name__ in str(raised.value)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_no_copies_of_a_receipt(duplicate: Callable[[Any], object]) -> None:
    """Nobody would ever settle the copy. Pickled inside an error it stays behind, as ever."""
    receipt = Stage({"orders": [1]}).producer.send_many("orders", [b"x"])
    with pytest.raises(TypeError, match="SendReceipt cannot be copied"):
        duplicate(receipt)
    assert pickle.loads(pickle.dumps(receipt)) is None


@pytest.mark.parametrize("face", [kprod.Producer, AsyncProducer])
@pytest.mark.parametrize("servers", ["localhost:9092", ["localhost:9092"], ("localhost:9092",), 5])
def test_an_address_alone_is_told_its_name(face: type, servers: object) -> None:
    """Other producers take it first; here it is the setting `bootstrap_servers`."""
    with pytest.raises(TypeError, match=rf"{face.__name__}\(bootstrap_servers=") as raised:
        face(servers)
    if servers != 5:
        assert f"bootstrap_servers={servers!r})" in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"config": {"default_partitions": 3}}, r"EmbeddedCluster\(default_partitions=3\)"),
        ({"brokers": "3"}, "brokers must be int or a sequence of ids, got str"),
        ({"brokers": {"orders": 1}}, "brokers must be int or a sequence of ids, got dict"),
        ({"topics": ["orders"]}, 'topics={"orders": 3}'),
    ],
)
def test_a_cluster_says_what_its_arguments_are(arguments: dict[str, Any], expected: str) -> None:
    """A call that is natural elsewhere gets the name of the one that does it here."""
    with pytest.raises(TypeError, match=expected):
        EmbeddedCluster(**arguments)


class Endless:
    """Headers that never end, and count the pairs taken."""

    def __init__(self, size: int) -> None:
        self.taken = 0
        self.size = size

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        while self.taken < LIMIT:
            self.taken += 1
            yield "h", b"x" * self.size
        raise AssertionError("still reading")


LIMIT = 2_000_000
"""Headers that nobody asks for: the smallest takes two bytes of a request's million."""


@pytest.mark.parametrize("size", [0, 1, 10_000])
def test_headers_without_end_are_read_up_to_the_limit_of_a_request(size: int) -> None:
    """The error names the setting; no more is read than shows that it is passed."""
    stage = Stage({"orders": [1]})
    headers = Endless(size)
    with pytest.raises(RecordTooLarge, match="max_request_size=1048576"):
        stage.producer.send("orders", b"x", headers=headers)
    assert headers.taken <= 1_048_576 // (size + 2) + 1


def test_headers_without_end_end_one_record_of_a_bulk_send() -> None:
    """The others continue."""
    stage = Stage({"orders": [1]})
    receipt = stage.producer.send_many("orders", [b"a", b"b"], headers=[Endless(1), None])
    assert receipt.record_count == 2
    ((index, error),) = receipt.failures()
    assert index == 0
    assert "max_request_size" in str(error)


class Lying:
    """A sequence of headers that says that it is longer than memory."""

    def __len__(self) -> int:
        return 1 << 60

    def __length_hint__(self) -> int:
        return 1 << 60

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        return iter([("a", b"1")])


def test_a_length_that_lies_costs_nothing() -> None:
    """Headers are counted as they come."""
    stage = Stage({"orders": [1]})
    future = stage.producer.send("orders", b"x", headers=Lying())
    stage.run()
    stage.take().answer(base_offset=3)
    stage.run()
    assert future.result(0).offset == 3


TEXT = "x" * 100_000 + "\x1b[2J\n"


@pytest.mark.parametrize(
    "call",
    [
        lambda p: p.send(TEXT, b"x"),
        lambda p: p.send("orders", b"x", headers=[(TEXT, "text")]),
        lambda p: p.send("orders", b"x", headers=[(TEXT, 5)]),
        lambda p: p.send("orders", b"x", headers=[TEXT]),
        lambda p: p.send("orders", b"x", partition=1 << 100_000),
        lambda p: p.send("orders", b"x", timestamp_ms=1 << 100_000),
        lambda p: p.send("orders", b"x", timestamp_ms=-(1 << 100_000)),
        lambda p: p.send_many(TEXT, [b"x"]),
        lambda _: kprod.Producer({TEXT: 1}),
        lambda _: kprod.Producer(bootstrap_servers=TEXT),
        lambda _: kprod.Producer(bootstrap_servers="a:1", client_id=TEXT),
        # under test
        lambda _: kprod.Producer(bootstrap_servers="a:1", acks=TEXT),  # type: ignore[arg-type]
        lambda _: kprod.Producer(TEXT),  # type: ignore[arg-type]  # under test
    ],
)
def test_an_error_repeats_no_long_argument(call: Callable[[Any], object]) -> None:
    """A hundred thousand characters are cut, and what a terminal obeys is escaped."""
    stage = Stage({"orders": [1]})
    with pytest.raises((KprodError, TypeError, ValueError)) as raised:
        call(stage.producer)
    assert 0 < len(str(raised.value)) < 1_000
    assert "\x1b" not in str(raised.value)
