"""The fetch that is sent again: as the general way would send it, or not at all."""

import contextlib
from collections.abc import Callable, Generator
from typing import Any

import pytest

from kprod._core.wire.fetch_frames import LoneFetch, read_lone_fetch
from kprod.consumer.consumer_face import engine_of
from kprod.consumer.position import State, new_start
from kprod.errors import KprodError
from kprod.network import epoll_selector
from kprod.network.node_state import ConnectionState
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import response_codec
from kprod.protocol.headers import encode_response_header
from tests.consumer.direct_read.line import T0, Line
from tests.consumer.reading import CLOCK, LIMIT_S, wait_until
from tests.oracle import record_v2

pytestmark = pytest.mark.skipif(
    not epoll_selector.IS_AVAILABLE, reason="the direct path needs epoll and eventfd (Linux)"
)

RECORDS = 20


class Usual:
    """The fetch in flight, and the usual response to it, while the I/O thread's state is owned."""

    def __init__(self, line: Line) -> None:
        parts = engine_of(line.consumer).parts
        direct = line.direct
        self.repeat = direct._repeat
        self.fetcher, self.plan, self.buffer = parts.fetcher, parts.plan, parts.buffer
        self.client, self.metadata = parts.client, parts.metadata
        self.connection: Any = parts.client.connections.by_node_id[direct._fetcher.lone_node_id]
        newest: Any = self.connection.requests.newest
        self.in_flight = newest
        self.request = newest.request
        self.session = self.request.session
        self.partition = parts.assignment.of(T0)
        self.now_ms = parts.clock.now_ms()
        self.wanted = self.request.repeated
        self.values = {
            "topic_id": self.session.wanted[T0].topic_id,
            "session_id": self.session._session_id,
            "partition": 0,
            "records": batch(self.partition.fetch_offset),
        }

    def answer(self, **changes: Any) -> LoneFetch:
        """Make the response, or one that is not the usual one."""
        values = self.values | changes
        version = self.in_flight.version
        partition = {
            "partition_index": values["partition"],
            "error_code": 0,
            "high_watermark": 9,
            "last_stable_offset": 9,
            "log_start_offset": 0,
            "aborted_transactions": None,
            "preferred_read_replica": -1,
            "records": values["records"],
        }
        body = {
            "throttle_time_ms": 0,
            "error_code": 0,
            "session_id": values["session_id"],
            "responses": [{"topic_id": values["topic_id"], "partitions": [partition]}],
        }
        header = encode_response_header(ApiKey.FETCH, version, self.in_flight.correlation_id)
        answer = read_lone_fetch(
            header + response_codec(ApiKey.FETCH, version).encode(body), version
        )
        assert answer is not None
        return answer

    def is_accepted(self, **changes: Any) -> bool:
        """Whether the fetch would be sent again."""
        in_flight, answer = self.in_flight, self.answer(**changes)
        return bool(
            self.repeat.accepts(self.connection, in_flight, self.request, answer, self.now_ms)
        )


def batch(offset: int, size_bytes: int = 1) -> bytes:
    """One record in a batch of its own."""
    return record_v2.encode_batch([(1, None, bytes(size_bytes), [])], base_offset=offset)


@contextlib.contextmanager
def owned(line: Line) -> Generator[Usual]:
    """Own the I/O thread's state, with the fetch in flight that names the partition."""
    until_ms = CLOCK.now_ms() + LIMIT_S * 1_000
    assert line.consumer.poll(0) == []  # frees the block of the record before
    while not _is_owned(line):
        assert CLOCK.now_ms() < until_ms
        line.send()
        line.read()
        assert line.consumer.poll(0) == []
        wait_until(line.sleeps, "the I/O thread sleeps")
    try:
        yield Usual(line)
    finally:
        line.direct._io_lock.release()


def _is_owned(line: Line) -> bool:
    if not line.direct._io_lock.try_acquire():
        return False
    parts = engine_of(line.consumer).parts
    connection = parts.client.connections.by_node_id[line.direct._fetcher.lone_node_id]
    in_flight: Any = connection.requests.newest
    if in_flight is not None and in_flight.request.repeated is not None and line.seen == line.sent:
        return True
    line.direct._io_lock.release()
    return False


def test_one_request_stays_in_flight(line: Line) -> None:
    """Record after record; only an empty response makes a new one, which names no partition."""
    requests: list[int] = []
    for _ in range(RECORDS):
        wait_until(line.sleeps, "the I/O thread sleeps")
        with line.sending_when_waited_for():
            line.read()
        with owned(line) as usual:
            requests.append(id(usual.request))
    assert len(set(requests)) < RECORDS / 2


def test_the_state_is_as_the_general_way_leaves_it(line: Line) -> None:
    """Every other record goes the general way; then all fields are as after a new request."""
    for number in range(RECORDS):
        wait_until(line.sleeps, "the I/O thread sleeps")
        with owned(line) as usual:
            if number % 2:
                usual.request.repeated = None
        with line.sending_when_waited_for():
            line.read()
        with owned(line) as usual:
            session, partition = usual.session, usual.partition
            (wanted,) = session.wanted.values()
            assert session.asked == session.wanted == {T0: wanted}
            assert wanted.offset == partition.fetch_offset == line.seen
            assert wanted.last_epoch == partition.fetch_epoch == 0
            assert usual.fetcher.asked_bytes == {
                usual.connection.node.node_id: usual.request.bytes_max
            }
            assert usual.request.asked is session.asked
            assert len(usual.connection.requests) == 1
            assert usual.in_flight.timeout is not None
            assert usual.buffer.held_bytes == 0 or usual.buffer._freed
            assert partition.fetched_count == partition.consumed_count == line.seen


def test_the_bytes_are_those_of_a_new_request(line: Line) -> None:
    """As `FetchTerms.frame` writes them from the session."""
    with owned(line) as usual:
        old = usual.in_flight.frame.pieces[0]
        usual.repeat.run(
            usual.connection, usual.in_flight, usual.request, usual.answer(), usual.now_ms
        )
        session, request = usual.session, usual.request
        part = type(request._part)(session._session_id, session.epoch, dict(session.wanted), [])
        version, number = usual.in_flight.version, usual.in_flight.correlation_id
        wanted = request.terms.frame(
            part, request.bytes_max, version, number, usual.client._context.client_id
        )
        assert usual.in_flight.frame.pieces == [wanted]
        assert usual.in_flight.frame.is_written
        assert wanted != old
        usual.connection.drop(KprodError("the broker has no such record"), usual.now_ms)


def _of_another_session(usual: Usual) -> None:
    usual.values["session_id"] += 1


def _of_no_session(usual: Usual) -> None:
    usual.values["session_id"] = 0


REFUSED: dict[str, Callable[[Usual], object]] = {
    "another session": _of_another_session,
    "no session": _of_no_session,
    "a session with a change": lambda it: it.session._changed.update({T0: None}),
    "a session of topics without ids": lambda it: it.session._nameless.update({T0: None}),
    "a session whose epoch ends": lambda it: setattr(it.session, "epoch", 2**31 - 1),
    "another partition": lambda it: it.values.update(partition=1),
    "another topic": lambda it: it.values.update(topic_id=type(it.values["topic_id"])(int=5)),
    "no records": lambda it: it.values.update(records=None),
    "a part of a batch": lambda it: it.values.update(records=it.values["records"][:-1]),
    "older records": lambda it: it.values.update(records=batch(it.partition.fetch_offset - 1)),
    "the last offset": lambda it: it.values.update(records=batch(2**63 - 1)),
    "many records": lambda it: it.values.update(records=batch(it.partition.fetch_offset, 40_000)),
    "a paused partition": lambda it: setattr(it.partition, "paused", True),
    "a partition with a new start": lambda it: setattr(it.partition, "start", new_start(0)),
    "a partition of another number": lambda it: setattr(it.partition, "number", 0),
    "a partition that is not fetched": lambda it: setattr(it.partition, "state", State.HALTED),
    "a partition elsewhere": lambda it: setattr(it.partition, "fetch_offset", 0),
    "a partition put off": lambda it: setattr(it.partition, "retry_at_ms", it.now_ms + 1),
    "a block ahead": lambda it: setattr(
        it.partition, "fetched_count", it.partition.fetched_count + 1
    ),
    "a response without a batch": lambda it: it.fetcher.without_batch.append(it.wanted),
    "a fetch that waits for memory": lambda it: setattr(it.buffer, "is_short", True),
    "a partition that waits for the application": lambda it: it.plan._full_counts.update(
        {it.connection.node.node_id: 1}
    ),
    "a preferred replica": lambda it: it.plan._replicas.prefer(
        T0, it.connection.node.node_id, it.now_ms
    ),
    "less memory": lambda it: setattr(
        it.buffer, "held_bytes", it.buffer.capacity_bytes - it.request.bytes_max
    ),
    "no memory": lambda it: setattr(it.buffer, "held_bytes", it.buffer.capacity_bytes),
    "a request that names nothing": lambda it: setattr(it.request, "repeated", None),
    "a request that is not written": lambda it: setattr(it.in_flight.frame, "written_bytes", 1),
    "a login": lambda it: setattr(it.connection.state, "current", ConnectionState.REAUTHENTICATING),
    "a throttle": lambda it: setattr(it.connection.state, "throttled_until_ms", it.now_ms + 60_000),
    "metadata that is due": lambda it: setattr(it.metadata._schedule, "due_at_ms", 0),
}


def test_the_usual_response_is_accepted(line: Line) -> None:
    """Else the next test would show nothing."""
    with owned(line) as usual:
        assert usual.is_accepted()


@pytest.mark.parametrize("case", REFUSED)
def test_every_other_case_is_refused(line: Line, case: str) -> None:
    """And nothing is changed: the general way does all of it."""
    with owned(line) as usual:
        assert usual.is_accepted()
        REFUSED[case](usual)
        assert not usual.is_accepted()
        usual.connection.drop(KprodError("this state is no real one"), usual.now_ms)


def test_a_fetch_that_cannot_be_sent_again_loses_no_record(line: Line) -> None:
    """The connection ends, and the record is fetched on the next."""
    for _ in range(3):
        with owned(line) as usual:
            usual.request._frame = b"too short"  # so that `run` raises
        with line.sending_when_waited_for():
            line.read()
        line.send()
        line.read()
    assert line.seen == line.sent
