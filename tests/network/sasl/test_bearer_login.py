"""OAUTHBEARER at the embedded broker: providers that work, hang, raise, and return the wrong."""

import contextlib
import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kprod import Producer
from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.errors import AuthenticationFailed, DeliveryTimeout, KprodError, MetadataTimeout
from kprod.providers import token_file, unsecured
from tests.plugins.early_logins import SESSION_MS

BEARER = "OAUTHBEARER"
AUDIENCE = "kafka"
TRIES_MAX = 400


def served(protocol: str = "SASL_PLAINTEXT", **security: Any) -> EmbeddedCluster:
    """One broker that wants a token."""
    wanted = BrokerSecurity(protocol=protocol, mechanisms=(BEARER,), **security)
    return EmbeddedCluster(1, {"orders": 1}, security=wanted)


def settings_with(cluster: EmbeddedCluster, provider: object) -> dict[str, Any]:
    """Settings of a client with this provider."""
    return cluster.client_settings(user="alice") | {"sasl_oauth_token_provider": provider}


def rejection(settings: dict[str, Any], **more: Any) -> KprodError:
    """The error of a record that cannot be sent."""
    with Producer(settings, max_block_ms=5_000, **more) as producer:
        with pytest.raises((AuthenticationFailed, MetadataTimeout)) as caught:
            producer.send("orders", b"one")
        return caught.value


def delivered_in_the_end(producer: Producer) -> int:
    """Send until the back-off of failed logins is over; the record's offset."""
    for _ in range(TRIES_MAX):
        with contextlib.suppress(AuthenticationFailed):
            return producer.send("orders", b"one").result(30).offset
        threading.Event().wait(0.05)
    raise AssertionError("every login failed")


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("linger_ms", [0, 5])
def test_a_record_is_delivered(protocol: str, linger_ms: int) -> None:
    """With a signed token."""
    with (
        served(protocol) as cluster,
        Producer(cluster.client_settings(user="alice"), linger_ms=linger_ms) as producer,
    ):
        assert producer.send("orders", b"one").result(30).offset == 0


def test_an_unsecured_token() -> None:
    """The broker accepts it, also with Confluent's extension."""
    with served(allow_unsecured_tokens=True) as cluster:
        settings = settings_with(cluster, unsecured("alice", scope="kafka"))
        settings["sasl_oauthbearer_config"] = "for providers with an argument"
        with Producer(settings) as producer:
            assert producer.send("orders", b"one").result(30).offset == 0
    with served() as cluster:
        assert "rejected the login (OAUTHBEARER)" in str(
            rejection(settings_with(cluster, unsecured("alice")))
        )


def test_a_token_from_a_file(tmp_path: Any) -> None:
    """By a setting, and by a provider; a file that vanishes is named."""
    path = tmp_path / "token"
    with served() as cluster:
        path.write_text(f"{cluster.token('alice')}\n", "utf-8")
        settings = settings_with(cluster, token_file(str(path)))
        with Producer(settings) as producer:
            assert producer.send("orders", b"one").result(30).offset == 0
        del settings["sasl_oauth_token_provider"]
        settings["sasl_oauthbearer_token_file"] = str(path)
        with Producer(settings) as producer:
            assert producer.send("orders", b"two").result(30).offset == 1
        path.unlink()
        error = rejection(settings)
    assert isinstance(error, AuthenticationFailed)
    assert f"the token file '{path}' cannot be read: No such file" in str(error)


def test_a_pipe_is_no_token_file(tmp_path: Path) -> None:
    """Its open would wait for a writer, and the login with it."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(AuthenticationFailed, match="cannot be read: it is not a regular file"):
        token_file(str(path)).token()
    with pytest.raises(AuthenticationFailed, match="cannot be read: "):
        token_file("\udcff\ud800").token()


def test_a_rejected_token_is_described(caplog: pytest.LogCaptureFixture) -> None:
    """By its end and its claims, with the broker's status; it is nowhere itself."""
    caplog.set_level(1)
    with served(token_audience=AUDIENCE) as cluster:
        token = cluster.token("alice", aud="another")
        error = rejection(settings_with(cluster, lambda: token))
    assert isinstance(error, AuthenticationFailed)
    assert "the broker rejected the login (OAUTHBEARER): " in str(error)
    assert "status 'invalid_token'" in str(error)
    assert "audience 'another'" in str(error)
    assert "expires in 3" in str(error)
    assert token not in str(error) + caplog.text
    assert token.split(".")[2] not in caplog.text


def test_one_fresh_token_is_tried_at_once() -> None:
    """Since a token may die before its end: nobody is told of the rejected one."""
    with served(token_audience=AUDIENCE) as cluster:
        tokens = [cluster.token("alice", aud="another"), cluster.token("alice", aud="kafka")]
        given: list[str] = []

        def provide() -> str:
            given.append(tokens[min(len(given), 1)])
            return given[-1]

        with Producer(settings_with(cluster, provide), max_block_ms=20_000) as producer:
            assert producer.send("orders", b"one").result(30).offset == 0
    assert given == tokens


@pytest.mark.parametrize(
    ("provider", "text"),
    [
        (lambda: 1 // 0, "the token provider raised ZeroDivisionError: integer division"),
        (lambda: None, "the token provider returned a value of type NoneType"),
        (lambda: ("abc", 5.0), "the token provider returned a token that expired "),
        (lambda: ("abc", 1.8e12), "an end in milliseconds"),
        (lambda: "a\nb", "not a bearer token"),
    ],
)
def test_a_provider_that_gives_none(provider: Callable[[], object], text: str) -> None:
    """The error, which is raised at once, has its exception as a cause."""
    with served() as cluster:
        error = rejection(settings_with(cluster, provider))
    assert isinstance(error, AuthenticationFailed)
    assert "there is no token: " in str(error)
    assert text in str(error)
    assert error.__cause__ is not None


class Wordless(Exception):
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        """Fail."""
        raise RuntimeError("no words")


def test_a_provider_whose_error_has_no_text_ends_the_login_only() -> None:
    """The next login asks it again, and the producer continues."""
    with served() as cluster:
        token, calls = cluster.token("alice"), itertools.count()

        def provide() -> str:
            if next(calls) == 0:
                raise Wordless
            return token

        with Producer(settings_with(cluster, provide), max_block_ms=20_000) as producer:
            with pytest.raises(AuthenticationFailed, match="Wordless: its text raised"):
                producer.send("orders", b"lost")
            assert delivered_in_the_end(producer) == 0


def test_a_principal_of_any_type_is_a_text_for_logs() -> None:
    """As of a provider that gives the user's number."""
    with served() as cluster:
        found = (cluster.token("alice"), None, 42)
        with Producer(settings_with(cluster, lambda: found), max_block_ms=20_000) as producer:
            assert producer.send("orders", b"one").result(30).offset == 0


def test_a_provider_that_hangs_blocks_nobody() -> None:
    """The login has its time; `close` does not wait."""
    entered, leave = threading.Event(), threading.Event()

    def hang() -> str:
        entered.set()
        leave.wait(60)
        return "late"

    with served() as cluster:
        try:
            error = rejection(settings_with(cluster, hang), request_timeout_ms=300)
            assert entered.is_set()
        finally:
            leave.set()
            _join_login_threads()
    assert isinstance(error, AuthenticationFailed)
    assert "not over within 300 ms (request_timeout_ms)" in str(error)
    assert "the token provider has not returned" in str(error)


def _join_login_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == "kprod-login":
            thread.join(30)


@pytest.mark.slow
@pytest.mark.usefixtures("early_logins")
def test_tokens_are_replaced_on_a_connection() -> None:
    """Each login has a fresh token, no record notices, and the connections stay."""
    given: list[str] = []
    with served() as cluster:

        def provide() -> str:
            given.append(cluster.token("alice", expires_in_s=SESSION_MS // 1_000))
            return given[-1]

        with Producer(settings_with(cluster, provide), linger_ms=1) as producer:
            futures: list[Any] = []
            while (counted := metrics_of(producer))["successful-reauthentication-total"] < 3:
                futures.append(producer.send("orders", b"%d" % len(futures)))
                threading.Event().wait(0.01)
            offsets = [future.result(30).offset for future in futures]
            counted = metrics_of(producer)
    assert offsets == list(range(len(futures)))
    assert len(given) >= 3
    assert counted["connection-close-total"] == counted["failed-reauthentication-total"] == 0


@pytest.mark.slow
def test_records_outlive_tokens() -> None:
    """Tokens of two seconds: a session that ends first costs its connection, and no record."""
    with served() as cluster:
        provider = lambda: cluster.token("alice", expires_in_s=3)  # noqa: E731 - it is short
        with Producer(settings_with(cluster, provider), linger_ms=1) as producer:
            futures = []
            for number in range(600):
                futures.append(producer.send("orders", b"%d" % number))
                threading.Event().wait(0.01)
            offsets = [future.result(30).offset for future in futures]
            counted = metrics_of(producer)
        found = [int(record.value or b"") for record in cluster.records("orders")[0]]
    assert offsets == found == list(range(600))
    names = ("successful-authentication-total", "successful-reauthentication-total")
    assert sum(counted[name] for name in names) >= 4


@pytest.mark.slow
def test_a_provider_that_fails_is_not_asked_all_the_time() -> None:
    """Records wait for the next token; without one the session's end says why."""
    calls = itertools.count(1)
    with served() as cluster:

        def provide() -> str:
            if next(calls) > 1:
                raise RuntimeError("the issuer is down")
            return cluster.token("alice", expires_in_s=3)

        settings = settings_with(cluster, provide)
        settings |= {"linger_ms": 0, "request_timeout_ms": 1_000, "delivery_timeout_ms": 4_000}
        with Producer(settings) as producer:
            assert producer.send("orders", b"one").result(30).offset == 0
            threading.Event().wait(3)  # the session is over, and so is the token
            with pytest.raises(DeliveryTimeout) as caught:
                producer.send("orders", b"two").result(30)
        assert "there is no token: the token provider raised RuntimeError" in str(caught.value)
    assert next(calls) < 50


def metrics_of(producer: Producer) -> dict[str, Any]:
    """Counts of logins and connections."""
    return producer.metrics()["producer-metrics"]
