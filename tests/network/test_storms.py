"""Brokers that cannot be reached, however many there are: few attempts, questions and lines."""

import errno
import itertools
import logging
from collections import Counter
from collections.abc import Mapping

import pytest

from kprod.protocol.api import ApiKey
from tests.network.scripted import Peer, World, metadata_body
from tests.producer.stage import Stage

BOOTSTRAP_PORT = 9001
REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
SECONDS = 20
REPEATED_PER_SECOND_MAX = 20


class Storm:
    """A bootstrap address that works, and brokers that do not; each step is a millisecond.

    Args:
        brokers: Host and port by node id, as the bootstrap address advertises them.
        mends_at_ms: From when on connections to other ports stand and are answered.
    """

    def __init__(
        self, brokers: Mapping[int, tuple[str, int]], *, mends_at_ms: int = 1 << 60
    ) -> None:
        self.world = World(f"127.0.0.1:{BOOTSTRAP_PORT}")
        self.brokers = brokers
        self.mends_at_ms = mends_at_ms
        self.questions = 0
        self.hangs_up = False
        self.resolved: dict[str, str] = {}
        self._seen_names = 0
        self.begin_ms = self.world.now_ms
        self.world.metadata.add_topic("orders", self.world.now_ms)

    @property
    def attempts(self) -> int:
        """Connections begun, but for those to the bootstrap address."""
        return sum(t.address.port != BOOTSTRAP_PORT for t in self.world.transports)

    def run(self, duration_ms: int, *, step_ms: int = 5) -> None:
        """Ask for every leader as a sender does that has batches for them."""
        world = self.world
        for _ in range(duration_ms // step_ms):
            for node in list(world.metadata.snapshot.nodes.values()):
                if (
                    node.node_id >= 0
                    and world.client.connections.poll_delay_ms(node, world.now_ms) == 0
                ):
                    world.client.ready(node, world.now_ms)
            self._serve()
            world.poll(step_ms)

    def _serve(self) -> None:
        for transport in self.world.transports:
            if transport.is_closed:
                continue
            is_mended = self.world.now_ms - self.begin_ms >= self.mends_at_ms
            if transport.address.port != BOOTSTRAP_PORT and not is_mended:
                if self.hangs_up:
                    Peer(transport).accept().close()
                else:
                    transport.connect_error = REFUSED
                continue
            peer = Peer(transport).accept()
            for request in peer.requests():
                if request.api_key == ApiKey.API_VERSIONS:
                    peer.respond(request, {"api_keys": _ALL})
                else:
                    self.questions += 1
                    leaders = [(node_id, 0) for node_id in self.brokers]
                    peer.respond(request, metadata_body(self.brokers, {"orders": leaders}))
        asked = self.world.resolver.asked
        for host, port in asked[self._seen_names :]:
            self.world.resolver.answer(host, port, error=f"cannot resolve '{host}'")
        self._seen_names = len(asked)


_ALL = [
    {"api_key": int(key), "min_version": 0, "max_version": version}
    for key, version in ((ApiKey.METADATA, 12), (ApiKey.API_VERSIONS, 3))
]


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The log lines at WARNING or above."""
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


@pytest.mark.parametrize("hangs_up", [True, False])
def test_hundreds_of_brokers_at_one_address_are_tried_as_one(hangs_up: bool) -> None:
    """The address is backed off from, under whatever id it is advertised."""
    storm = Storm(dict.fromkeys(range(1, 301), ("127.0.0.1", 9101)))
    storm.hangs_up = hangs_up
    storm.run(SECONDS * 1_000, step_ms=10)

    assert 5 <= storm.attempts <= 2 * SECONDS + 10


@pytest.mark.slow
def test_repeated_attempts_are_twenty_a_second_for_the_whole_client() -> None:
    """200 brokers at addresses of their own: each is tried at once, and then they take turns."""
    storm = Storm({number: ("127.0.0.1", 9_100 + number) for number in range(1, 201)})
    storm.run(SECONDS * 1_000)

    by_port = Counter(t.address.port for t in storm.world.transports)
    assert all(by_port[9_100 + number] for number in range(1, 201))
    assert storm.attempts <= 200 + REPEATED_PER_SECOND_MAX * (SECONDS + 1)


def test_a_name_that_cannot_be_resolved_is_asked_about_less_and_less(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One name, one address: questions are as far apart as attempts, and lines are fewer."""
    caplog.set_level(logging.INFO)
    storm = Storm({1: ("nowhere.example", 9101)})
    storm.run(SECONDS * 1_000)

    assert 5 <= len(storm.world.resolver.asked) <= 2 * SECONDS + 10
    assert 1 <= len([r for r in caplog.records if "nowhere.example" in r.getMessage()]) <= 16


def test_a_wrong_advertised_listener_is_named_once_and_asked_about_less_and_less(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The bootstrap address answers, and what it advertises cannot be reached from here."""
    storm = Storm({0: ("127.0.0.1", 9101)})
    storm.run(60_000)

    (named,) = [line for line in warnings_of(caplog) if "advertised.listeners" in line]
    assert "broker 0" in named
    assert "127.0.0.1:9101" in named
    assert "Connection refused" in named
    assert 2 <= storm.questions <= 20
    assert len(warnings_of(caplog)) <= 10


def test_an_advertised_listener_that_begins_to_work_is_used() -> None:
    """However long it did not: the next attempt is a second away at most."""
    storm = Storm({0: ("127.0.0.1", 9101)}, mends_at_ms=60_000)
    storm.run(62_000)

    assert storm.world.client.can_send(0)


def test_a_broker_that_moved_to_another_listener_is_found() -> None:
    """Nodes that the bootstrap address advertises are requested again every ten seconds."""
    storm = Storm({0: ("127.0.0.1", 9101)})
    storm.run(60_000)
    storm.brokers = {0: ("127.0.0.1", BOOTSTRAP_PORT)}
    storm.run(12_000)

    assert storm.world.client.can_send(0)


def test_the_reason_why_no_broker_answers_is_told_at_once_and_then_seldom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """At WARNING, with the address and the reason; the pauses between lines grow to a minute."""
    world = World("127.0.0.1:9001,127.0.0.1:9002")
    begin_ms = world.now_ms
    log_append_time_ms: list[int] = []
    for _ in range(300_000 // 10):
        for transport in world.transports:
            transport.connect_error = REFUSED
        world.poll(10)
        log_append_time_ms += [world.now_ms] * (len(warnings_of(caplog)) - len(log_append_time_ms))

    assert log_append_time_ms[0] - begin_ms <= 100
    first = warnings_of(caplog)[0]
    assert "127.0.0.1:900" in first
    assert "Connection refused" in first
    pauses = [after - before for before, after in itertools.pairwise(log_append_time_ms)]
    assert 5 <= len(pauses) <= 12
    assert pauses[0] <= 3_000
    assert max(pauses) <= 75_000
    assert "attempts" in warnings_of(caplog)[-1]


def test_a_broker_that_responds_again_resets_the_back_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The next trouble is told at once."""
    storm = Storm({0: ("127.0.0.1", BOOTSTRAP_PORT)})
    storm.run(1_000)
    assert not warnings_of(caplog)
    for transport in storm.world.transports:
        transport.io_error = ConnectionResetError("reset")
    storm.world.rejected["127.0.0.1:9001"] = REFUSED
    storm.run(1_000)

    first = warnings_of(caplog)[0]
    assert "no broker can be reached" in first
    assert "127.0.0.1:9001" in first


def test_a_record_that_expires_names_the_advertised_address_that_cannot_be_reached() -> None:
    """There is a leader, and the text does not say that there is none."""
    stage = Stage({"orders": [2]}, delivery_timeout_ms=10_000, request_timeout_ms=5_000)
    stage.brokers.silent = {2}
    stage.drop_connections(2)
    future = stage.put(b"value")
    for _ in range(40):
        for transport in stage.transports:
            if transport.address.port == 9_002 and not transport.is_closed:
                transport.connect_error = REFUSED
        stage.run(500)

    text = str(future.exception(0))
    stage.close()
    Stage.opened.remove(stage)
    assert "no leader" not in text
    assert "broker 2 is advertised as 127.0.0.1:9002 (advertised.listeners)" in text
    assert "Connection refused" in text


def test_a_client_that_waits_for_brokers_takes_few_turns() -> None:
    """Batches wait for 20 leaders that refuse connections: no more turns than attempts need."""
    stage = Stage(
        {"orders": [1 + number % 20 for number in range(40)]}, node_ids=tuple(range(1, 21))
    )
    for partition in range(40):
        stage.put(b"value", partition=partition)
    stage.brokers.silent = set(range(1, 21))
    stage.drop_connections()
    attempts = len(stage.transports)
    turns = 0
    for _ in range(100):
        for transport in stage.transports:
            if not transport.is_closed and not transport.is_connected:
                transport.connect_error = REFUSED
        turns += stage.run(100)

    begun = len(stage.transports) - attempts
    assert 20 <= begun <= 20 + 10 * REPEATED_PER_SECOND_MAX
    assert turns <= 100 + 4 * begun
    stage.producer.close(0)
    Stage.opened.remove(stage)
