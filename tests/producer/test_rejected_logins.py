"""Records of a client whose login is rejected: before the first login, and after one.

A client that was never let in is told at once. One that was let in before keeps accepted records
until `delivery_timeout_ms`, since a password may be in the middle of its rotation; the error's
cause is then the rejection.
"""

import shutil
import struct
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kprod import Producer
from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.broker.security.authority import Authority
from kprod.errors import (
    AuthenticationFailed,
    DeliveryTimeout,
    KprodError,
    Persistence,
    RequestTimeout,
    TlsFailed,
)
from kprod.protocol.api import ApiKey

LONG_MS = 60_000
"""Longer than a test may take: what ends before it was ended by the rejection."""

SHORT_MS = 2_000
TOKEN_S = 2
IDLE_MS = 1_000


class Login(NamedTuple):
    """A cluster, settings with which its login works, and what breaks the login from then on."""

    cluster: EmbeddedCluster
    settings: dict[str, Any]
    spoil: Callable[[], object]


def by_wrong_password(_: Path) -> Login:
    """Error 58."""
    passwords = ["right-secret"]
    cluster = served("SASL_PLAINTEXT", users={"alice": "right-secret"})
    settings = cluster.client_settings(user="alice", mechanism="PLAIN")
    settings["sasl_plain_password"] = lambda: passwords[0]
    return Login(cluster, settings, lambda: passwords.__setitem__(0, "wrong-secret"))


def by_mechanism(_: Path) -> Login:
    """Error 33."""
    cluster = served("SASL_PLAINTEXT", users={"alice": "right-secret"}, mechanisms=("PLAIN",))
    settings = cluster.client_settings(user="alice", mechanism="PLAIN")
    offered = b"SCRAM-SHA-512"
    body = struct.pack(f">hih{len(offered)}s", 33, 1, len(offered), offered)

    def spoil() -> None:
        cluster.faults.rewrite(ApiKey.SASL_HANDSHAKE, lambda frame: frame[:4] + body, times=1_000)

    return Login(cluster, settings, spoil)


def by_provider(_: Path) -> Login:
    """A token provider that raises."""
    cluster = served("SASL_PLAINTEXT", mechanisms=("OAUTHBEARER",))
    failing: list[Exception] = []

    def provide() -> str:
        if failing:
            raise failing[0]
        return cluster.token("alice", expires_in_s=TOKEN_S)

    settings = cluster.client_settings(user="alice") | {"sasl_oauth_token_provider": provide}

    def spoil() -> None:
        failing.append(RuntimeError("the issuer is down"))
        threading.Event().wait(TOKEN_S)  # until the token is over

    return Login(cluster, settings, spoil)


def by_certificate(directory: Path) -> Login:
    """A broker that is no longer trusted."""
    cluster = served("SSL")
    trusted, other = directory / "ca.pem", directory / "other.pem"
    trusted.write_text(cluster.ca_pem, "utf-8")
    other.write_text(Authority().pem, "utf-8")
    settings = cluster.client_settings()
    settings.pop("ssl_cadata", None)
    return Login(
        cluster, settings | {"ssl_cafile": str(trusted)}, lambda: shutil.move(other, trusted)
    )


CAUSES = (
    (by_wrong_password, AuthenticationFailed, "the broker rejected user 'alice' (PLAIN)"),
    (by_mechanism, AuthenticationFailed, "the broker offers SCRAM-SHA-512, not PLAIN"),
    (by_provider, AuthenticationFailed, "the token provider raised RuntimeError"),
    (by_certificate, TlsFailed, "not issued by a trusted authority"),
)
causes = pytest.mark.parametrize(
    ("make", "kind", "text"), CAUSES, ids=[make.__name__ for make, _, _ in CAUSES]
)
Make = Callable[[Path], Login]


def served(protocol: str, **security: Any) -> EmbeddedCluster:
    """One broker, which runs."""
    wanted = BrokerSecurity(protocol=protocol, **security)
    cluster = EmbeddedCluster(1, {"orders": 1, "others": 1}, security=wanted)
    cluster.start()
    return cluster


def wait_for_idle_end(producer: Producer) -> None:
    """Wait until the client has closed its connections, since nothing was sent."""
    while producer.metrics()["producer-metrics"]["connection-count"]:
        threading.Event().wait(0.05)


@pytest.mark.slow
@causes
def test_a_client_that_was_never_let_in(
    make: Make, kind: type[KprodError], text: str, tmp_path: Path
) -> None:
    """`send` raises the rejection; no time ends, and nothing was sent."""
    login = make(tmp_path)
    with closing(login.cluster):
        login.spoil()
        with (
            Producer(login.settings, max_block_ms=LONG_MS) as producer,
            pytest.raises(kind) as caught,
        ):
            producer.send("orders", b"one")
        assert text in str(caught.value)
        assert not login.cluster.records("orders")[0]


@pytest.mark.slow
@causes
def test_a_send_that_waits_for_metadata(
    make: Make, kind: type[KprodError], text: str, tmp_path: Path
) -> None:
    """After an earlier login as well."""
    login = make(tmp_path)
    limits: dict[str, Any] = {"connections_max_idle_ms": IDLE_MS, "max_block_ms": LONG_MS}
    with closing(login.cluster), Producer(login.settings, **limits) as producer:
        producer.send("orders", b"one").result(30)
        login.spoil()
        wait_for_idle_end(producer)
        with pytest.raises(kind) as caught:
            producer.send("others", b"two")
        assert text in str(caught.value)


@pytest.mark.slow
@causes
def test_accepted_records_wait(
    make: Make, kind: type[KprodError], text: str, tmp_path: Path
) -> None:
    """Until `delivery_timeout_ms`; nothing of them was written, and the cause is there."""
    login = make(tmp_path)
    limits: dict[str, Any] = {"request_timeout_ms": SHORT_MS, "delivery_timeout_ms": 2 * SHORT_MS}
    limits["connections_max_idle_ms"] = IDLE_MS
    with closing(login.cluster), Producer(login.settings, **limits) as producer:
        producer.send("orders", b"one").result(30)
        login.spoil()
        wait_for_idle_end(producer)
        future = producer.send("orders", b"two")
        with pytest.raises(DeliveryTimeout) as caught:
            future.result(60)
        assert text in str(caught.value)
        # A broker that has rejected a login was reached.
        is_of_address = "cannot be reached" in str(caught.value)
        assert is_of_address is (kind is not AuthenticationFailed)
        assert isinstance(caught.value.__cause__, kind)
        assert caught.value.persistence is Persistence.NOT_PERSISTED
        assert len(login.cluster.records("orders")[0]) == 1


@pytest.mark.slow
@causes
def test_records_in_flight(make: Make, kind: type[KprodError], text: str, tmp_path: Path) -> None:
    """They may be in the log, and the error says so."""
    login = make(tmp_path)
    limits: dict[str, Any] = {"request_timeout_ms": SHORT_MS, "delivery_timeout_ms": 2 * SHORT_MS}
    with closing(login.cluster), Producer(login.settings, **limits) as producer:
        producer.send("orders", b"one").result(30)
        login.cluster.faults.drop(ApiKey.PRODUCE, times=1)
        future = producer.send("orders", b"two")
        login.spoil()
        with pytest.raises((DeliveryTimeout, RequestTimeout)) as caught:
            future.result(60)
        assert text in str(caught.value)
        assert isinstance(caught.value.__cause__, kind)
        assert caught.value.persistence is Persistence.POSSIBLY_PERSISTED
