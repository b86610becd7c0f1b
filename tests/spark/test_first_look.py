"""Brokers and topics are looked at once when a query starts."""

import socket
from collections.abc import Generator, Iterable, Mapping

import pytest

from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.errors import ConfigError, KprodError, MetadataTimeout, UnknownTopic
from kprod.secret import Secret
from kprod.spark import first_look
from kprod.spark.columns import Columns
from kprod.spark.delivery_guarantee import AtLeastOnce
from kprod.spark.first_look import LOOK_VALID_MS, FirstLook, can_resolve_here, look
from kprod.spark.options import read_options

NO_COLUMNS = Columns(
    value="value", key=None, headers=None, topic=None, partition=None, timestamp=None
)


@pytest.fixture
def settings() -> Generator[dict[str, str]]:
    """Start a broker with one topic, that makes no others for this client.

    Yields:
        The settings for it.
    """
    with EmbeddedCluster(brokers=1, topics={"here": 2}) as cluster:
        yield {
            "bootstrap.servers": cluster.bootstrap_servers,
            "allow.auto.create.topics": "false",
        }


def test_a_missing_topic_is_named(
    settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where others are there, with what to do; it may be the one for dead letters."""
    monkeypatch.setattr(first_look, "TOPIC_WAIT_MS", 50)
    look(settings, [])
    look(settings, ["here"])
    with pytest.raises(UnknownTopic, match=r"no topic 'gone', .*check\.cluster=false"):
        look(settings, ["here", "gone"])


def test_a_topic_that_the_broker_makes_is_none_that_is_missing() -> None:
    """Where the settings allow it, it is made by the question."""
    with EmbeddedCluster(brokers=1) as cluster:
        look({"bootstrap.servers": cluster.bootstrap_servers}, ["made"])
        assert cluster.records("made")


def test_brokers_that_ask_for_tls_and_a_login_are_looked_at_with_both() -> None:
    """A wrong password is told, and not that no broker answers."""
    users = {"alice": "alice-secret"}
    security = BrokerSecurity(protocol="SASL_SSL", users=users)
    with EmbeddedCluster(brokers=1, topics={"here": 1}, security=security) as cluster:
        settings = cluster.client_settings()
        look(settings, ["here"])
        with pytest.raises(KprodError, match="rejected user 'alice'"):
            look(settings | {"sasl_plain_password": "wrong"}, ["here"])


@pytest.mark.parametrize("topics", [["here"], []])
def test_a_dead_broker_is_named_in_time(topics: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One that refuses connections, and one that accepts them and says nothing."""
    monkeypatch.setattr(first_look, "LOOK_TIMEOUT_MS", 300)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(MetadataTimeout, match="within 300 ms"):
            look({"bootstrap.servers": f"127.0.0.1:{port}"}, topics)
    with pytest.raises(MetadataTimeout, match=f"127.0.0.1:{port}.*check.cluster=false"):
        look({"bootstrap.servers": f"127.0.0.1:{port}"}, topics)


class _Looks:
    """Counts looks, which fail while `error` is set."""

    def __init__(self) -> None:
        self.count = 0
        self.now_ms = 1_000
        self.error: KprodError | None = None

    def look(self, _: Mapping[str, str | Secret], __: Iterable[str]) -> None:
        self.count += 1
        if self.error is not None:
            raise self.error

    def clock(self) -> int:
        return self.now_ms


def test_micro_batches_do_not_look_again() -> None:
    """As long as they come within a minute of each other; other writes look for themselves."""
    looks = _Looks()
    first = FirstLook(looks.look, looks.clock)
    for _ in range(3):
        first.once({"a": "1"}, ["t"])
        looks.now_ms += LOOK_VALID_MS - 1
    assert looks.count == 1
    first.once({"a": "1"}, ["u"])
    first.once({"a": "2"}, ["t"])
    assert looks.count == 3
    looks.now_ms += 1
    first.once({"a": "1"}, ["t"])
    assert looks.count == 4


def test_a_look_that_failed_is_repeated() -> None:
    """The query may start when the topic has been created."""
    looks = _Looks()
    first = FirstLook(looks.look, looks.clock)
    looks.error = KprodError("?")
    for _ in range(2):
        with pytest.raises(KprodError):
            first.once({}, [])
    looks.error = None
    first.once({}, [])
    first.once({}, [])
    assert looks.count == 3


def test_references_of_executors_are_left_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver does not look where it cannot know the settings; the first attempt does."""
    monkeypatch.setattr(first_look, "LOOK_TIMEOUT_MS", 300)
    monkeypatch.delenv("KPROD_BROKERS", raising=False)
    given = {"bootstrap.servers": "env:KPROD_BROKERS", "topic": "t"}
    assert not can_resolve_here(given)
    delivery = AtLeastOnce(read_options(given), NO_COLUMNS)
    delivery.prepare()
    monkeypatch.setenv("KPROD_BROKERS", "127.0.0.1:1")
    with pytest.raises(MetadataTimeout, match=r"127\.0\.0\.1:1"):
        delivery.write(iter(()))
    with pytest.raises(MetadataTimeout):
        AtLeastOnce(read_options(given), NO_COLUMNS).prepare()


def test_an_option_switches_it_off() -> None:
    """Then a query starts without brokers."""
    given = {"bootstrap.servers": "127.0.0.1:1", "topic": "t", "check.cluster": "false"}
    AtLeastOnce(read_options(given), NO_COLUMNS).prepare()
    with pytest.raises(ConfigError, match=r"check\.cluster must be true or false, not 'no'"):
        read_options({**given, "check.cluster": "no"})
