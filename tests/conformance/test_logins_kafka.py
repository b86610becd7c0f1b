"""Logins frame by frame at both brokers: answered, rejected, or closed without a response.

Source: Kafka's SaslServerAuthenticator (4.3); KIP-152, KIP-255, KIP-368.
"""

import threading
from collections.abc import Callable, Generator
from typing import Any

import pytest

from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.conformance.sides import Side, Sides
from tests.conformance.wire import Wire
from tests.plugins.kafka_secured import MECHANISMS, SESSIONS_MS, USERS, SecuredKafka

SESSION_MS = SESSIONS_MS["REAUTH"]
RIGHT = b"\0alice\0alice-secret"
OTHER_USER = b"\0carol\0carol-secret"
WRONG = b"\0alice\0wrong"
NOTHING: dict[str, Any] = {"topics": []}
Case = Callable[[Wire], object]


@pytest.fixture(scope="module")
def login_sides(kafka_secured: SecuredKafka) -> Generator[Sides]:
    """Both brokers, logins for as long as the connection.

    Yields:
        Them, ready.
    """
    security = BrokerSecurity(protocol="SASL_PLAINTEXT", users=USERS)
    with EmbeddedCluster(1, security=security) as cluster:
        kafka = Side("kafka", kafka_secured.secured_address("SASL_PLAINTEXT"))
        yield Sides(Side("embedded", cluster.bootstrap_servers), kafka)


@pytest.fixture(scope="module")
def short_sides(kafka_secured: SecuredKafka) -> Generator[Sides]:
    """Both brokers, logins for `SESSION_MS`.

    Yields:
        Them, ready.
    """
    security = BrokerSecurity(
        protocol="SASL_PLAINTEXT", users=USERS, session_lifetime_ms=SESSION_MS
    )
    with EmbeddedCluster(1, security=security) as cluster:
        kafka = Side("kafka", kafka_secured.secured_address("REAUTH"))
        yield Sides(Side("embedded", cluster.bootstrap_servers), kafka)


def agreed(sides: Sides, case: Case) -> Any:
    """Put a case to both, each over a connection of its own; returns what both answered."""

    def run(side: Side) -> object:
        with side.connect() as wire:
            return case(wire)

    return sides.agreed(run)


def begin(wire: Wire, mechanism: str = "PLAIN", version: int = 1) -> dict[str, Any]:
    """SaslHandshake."""
    return wire.ask(ApiKey.SASL_HANDSHAKE, version, {"mechanism": mechanism})


def authenticate(wire: Wire, message: bytes, version: int = 2) -> dict[str, Any]:
    """SaslAuthenticate."""
    answer = wire.ask(ApiKey.SASL_AUTHENTICATE, version, {"auth_bytes": message})
    return answer | {"auth_bytes": bytes(answer["auth_bytes"])}


def log_in(wire: Wire, message: bytes = RIGHT, mechanism: str = "PLAIN") -> dict[str, Any]:
    """Both requests; returns the second's answer."""
    begun = begin(wire, mechanism)
    assert begun["error_code"] == ErrorCode.NONE, begun
    return authenticate(wire, message)


def is_closed(wire: Wire) -> bool:
    """Whether the broker closes the connection, and says nothing more."""
    try:
        wire.read_frame()
    except ConnectionResetError:
        return True
    return False


def is_served(wire: Wire) -> bool:
    """Whether a request that needs a login is answered."""
    return bool(wire.ask(ApiKey.METADATA, 9, NOTHING)["brokers"])


def closes_at_metadata(wire: Wire) -> bool:
    """Whether a request that needs a login closes the connection instead."""
    wire.send(ApiKey.METADATA, 9, NOTHING)
    return is_closed(wire)


def wait(seconds: float) -> None:
    """Let a session grow old: both brokers go by the real time."""
    threading.Event().wait(seconds)


def test_before_a_login(login_sides: Sides) -> None:
    """ApiVersions is answered, any other request closes the connection without a word."""

    def case(wire: Wire) -> object:
        versions = wire.ask(ApiKey.API_VERSIONS, 3, _software())
        return versions["error_code"], closes_at_metadata(wire)

    assert agreed(login_sides, case) == (ErrorCode.NONE, True)


def test_versions_are_the_same_after_a_login(login_sides: Sides) -> None:
    """So a client need not ask twice."""

    def case(wire: Wire) -> object:
        before = wire.ask(ApiKey.API_VERSIONS, 3, _software())
        log_in(wire)
        return before["api_keys"] == wire.ask(ApiKey.API_VERSIONS, 3, _software())["api_keys"]

    assert agreed(login_sides, case) is True


def test_versions_of_the_login_itself(login_sides: Sides) -> None:
    """SaslHandshake 0 to 1, SaslAuthenticate 0 to 2."""

    def case(wire: Wire) -> object:
        ranges = wire.ask(ApiKey.API_VERSIONS, 3, _software())["api_keys"]
        return sorted(
            (it["api_key"], it["min_version"], it["max_version"])
            for it in ranges
            if it["api_key"] in {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
        )

    assert agreed(login_sides, case) == [(17, 0, 1), (36, 0, 2)]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_right_login(login_sides: Sides, version: int) -> None:
    """No error, no bytes, no end of the session."""

    def case(wire: Wire) -> object:
        begin(wire)
        answer = authenticate(wire, RIGHT, version)
        answer.pop("session_lifetime_ms", None)
        return answer, is_served(wire)

    answer, served = agreed(login_sides, case)
    assert answer == {"error_code": ErrorCode.NONE, "error_message": "", "auth_bytes": b""}
    assert served


@pytest.mark.parametrize("version", [1, 2])
def test_a_lifetime(login_sides: Sides, short_sides: Sides, version: int) -> None:
    """0 for as long as the connection, else what the broker is set to."""

    def case(wire: Wire) -> object:
        begin(wire)
        return authenticate(wire, RIGHT, version)["session_lifetime_ms"]

    assert agreed(login_sides, case) == 0
    assert agreed(short_sides, case) == SESSION_MS


@pytest.mark.parametrize("message", [WRONG, b"\0nobody\0alice-secret"])
def test_a_wrong_password_and_an_unknown_user(login_sides: Sides, message: bytes) -> None:
    """One code and one text for both, then the connection is closed."""

    def case(wire: Wire) -> object:
        answer = log_in(wire, message)
        return answer["error_code"], answer["error_message"], is_closed(wire)

    text = "Authentication failed: Invalid username or password"
    assert agreed(login_sides, case) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text, True)


@pytest.mark.parametrize("mechanism", MECHANISMS[1:])
def test_an_unknown_user_of_scram(login_sides: Sides, mechanism: str) -> None:
    """At Kafka before, here after the password's proof; one text."""

    def case(wire: Wire) -> object:
        answer = log_in(wire, b"n,,n=nobody,r=abcdefghijklmnop", mechanism)
        if not answer["error_code"]:
            nonce = answer["auth_bytes"].split(b",")[0]
            answer = authenticate(wire, b"c=biws," + nonce + b",p=" + b"A" * 43 + b"=")
        return answer["error_code"], answer["error_message"], is_closed(wire)

    text = (
        "Authentication failed during authentication due to invalid credentials with SASL"
        f" mechanism {mechanism}"
    )
    assert agreed(login_sides, case) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text, True)


def test_another_identity_than_the_user(login_sides: Sides) -> None:
    """PLAIN's first field may be the user's name, and no other."""

    def case(wire: Wire) -> object:
        return log_in(wire, b"carol\0alice\0alice-secret")["error_code"]

    def same(wire: Wire) -> object:
        return log_in(wire, b"alice\0alice\0alice-secret")["error_code"]

    assert agreed(login_sides, case) == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert agreed(login_sides, same) == ErrorCode.NONE


@pytest.mark.parametrize("name", ["plain", "CRAM-MD5", ""])
def test_a_mechanism_that_is_not_served(login_sides: Sides, name: str) -> None:
    """The ones that are, then closed; names are case-sensitive."""

    def case(wire: Wire) -> object:
        answer = begin(wire, name)
        offered = sorted(set(answer["mechanisms"]) & set(MECHANISMS))
        return answer["error_code"], offered, is_closed(wire)

    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert agreed(login_sides, case) == (code, sorted(MECHANISMS), True)


def test_a_login_where_none_is_taken(sides: Sides) -> None:
    """A plaintext listener answers, and continues."""

    def case(wire: Wire) -> object:
        answer = begin(wire)
        return answer["error_code"], list(answer["mechanisms"]), is_served(wire)

    assert agreed(sides, case) == (ErrorCode.ILLEGAL_SASL_STATE, [], True)


def test_a_login_and_a_request_in_one_write(login_sides: Sides) -> None:
    """All are answered, in order."""

    def case(wire: Wire) -> object:
        wire.send(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        wire.send(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": RIGHT})
        wire.send(ApiKey.METADATA, 9, NOTHING)
        return [int.from_bytes(wire.read_frame()[:4]) for _ in range(3)]

    assert agreed(login_sides, case) == [1, 2, 3]


def test_authenticate_without_a_handshake(login_sides: Sides) -> None:
    """The order is fixed."""

    def case(wire: Wire) -> object:
        wire.send(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": RIGHT})
        return is_closed(wire)

    assert agreed(login_sides, case) is True


@pytest.mark.slow
def test_logging_in_again_behind_requests(short_sides: Sides) -> None:
    """Requests in flight, the login and the requests behind it are answered in order."""

    def case(wire: Wire) -> object:
        log_in(wire)
        wait(1.1)
        for _ in range(5):
            wire.send(ApiKey.METADATA, 9, NOTHING)
        wire.send(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        wire.send(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": RIGHT})
        wire.send(ApiKey.METADATA, 9, NOTHING)
        ids = [int.from_bytes(wire.read_frame()[:4]) for _ in range(8)]
        wait(1.3)  # the first session would be over
        return ids, is_served(wire)

    assert agreed(short_sides, case) == (list(range(3, 11)), True)


@pytest.mark.parametrize("is_again", [False, True])
def test_a_request_in_the_middle_of_a_login(short_sides: Sides, is_again: bool) -> None:
    """It is answered with an error in its own form, and the connection is closed."""

    def case(wire: Wire) -> object:
        if is_again:
            log_in(wire)
        assert begin(wire)["error_code"] == ErrorCode.NONE
        (topic,) = wire.ask(ApiKey.METADATA, 9, {"topics": [{"name": "some"}]})["topics"]
        return topic["error_code"], is_closed(wire)

    assert agreed(short_sides, case) == (ErrorCode.ILLEGAL_SASL_STATE, True)


def test_logging_in_again_too_soon(short_sides: Sides) -> None:
    """The first time may be at once; the next within a second is rejected, and nothing changes."""

    def case(wire: Wire) -> object:
        log_in(wire)
        second = log_in(wire)["error_code"]
        answer = begin(wire)
        late = authenticate(wire, RIGHT)
        rejected = (answer["error_code"], list(answer["mechanisms"]), late["error_code"])
        return second, rejected, late["error_message"], is_served(wire)

    text = "SaslAuthenticate request received after successful authentication"
    code = ErrorCode.ILLEGAL_SASL_STATE
    assert agreed(short_sides, case) == (ErrorCode.NONE, (code, [], code), text, True)


@pytest.mark.slow
def test_logging_in_again_where_sessions_do_not_end(login_sides: Sides) -> None:
    """Rejected, however late; the session continues."""

    def case(wire: Wire) -> object:
        log_in(wire)
        wait(1.1)
        return begin(wire)["error_code"], is_served(wire)

    assert agreed(login_sides, case) == (ErrorCode.ILLEGAL_SASL_STATE, True)


@pytest.mark.slow
def test_a_session_that_is_over(short_sides: Sides) -> None:
    """A handshake is accepted, and a login makes it good again."""

    def case(wire: Wire) -> object:
        log_in(wire)
        wait(SESSION_MS / 1_000 + 0.1)
        return log_in(wire)["error_code"], is_served(wire)

    assert agreed(short_sides, case) == (ErrorCode.NONE, True)


@pytest.mark.slow
@pytest.mark.parametrize("api", ["METADATA", "API_VERSIONS", "SASL_AUTHENTICATE"])
def test_anything_else_after_the_session(short_sides: Sides, api: str) -> None:
    """Closes the connection without a word, ApiVersions too."""

    def case(wire: Wire) -> object:
        log_in(wire)
        wait(SESSION_MS / 1_000 + 0.1)
        bodies = {"METADATA": NOTHING, "API_VERSIONS": {}, "SASL_AUTHENTICATE": {"auth_bytes": b""}}
        wire.send(ApiKey[api], 0 if api != "METADATA" else 9, bodies[api])
        return is_closed(wire)

    assert agreed(short_sides, case) is True


@pytest.mark.slow
def test_a_session_that_nobody_told(short_sides: Sides) -> None:
    """Version 0 has no field for it, and is closed all the same."""

    def case(wire: Wire) -> object:
        begin(wire)
        answer = authenticate(wire, RIGHT, 0)
        wait(SESSION_MS / 1_000 + 0.1)
        return answer["error_code"], closes_at_metadata(wire)

    assert agreed(short_sides, case) == (ErrorCode.NONE, True)


@pytest.mark.slow
@pytest.mark.parametrize("message", [OTHER_USER, WRONG])
def test_logging_in_again_as_somebody_else(short_sides: Sides, message: bytes) -> None:
    """Or with a wrong password: rejected, and the connection ends."""

    def case(wire: Wire) -> object:
        log_in(wire)
        wait(1.1)
        answer = log_in(wire, message)
        return answer["error_code"], answer["error_message"], is_closed(wire)

    code, text, closed = agreed(short_sides, case)
    assert (code, closed) == (ErrorCode.SASL_AUTHENTICATION_FAILED, True)
    assert text.startswith("Cannot change principals" if message is OTHER_USER else "Authent")


@pytest.mark.slow
def test_logging_in_again_by_another_mechanism(short_sides: Sides) -> None:
    """The handshake is accepted, and then the connection is closed without a word."""

    def case(wire: Wire) -> object:
        log_in(wire)
        wait(1.1)
        begun = begin(wire, "SCRAM-SHA-256")["error_code"]
        message = {"auth_bytes": b"n,,n=alice,r=abcdefghijklmnop"}
        wire.send(ApiKey.SASL_AUTHENTICATE, 2, message)
        return begun, is_closed(wire)

    assert agreed(short_sides, case) == (ErrorCode.NONE, True)


def _software() -> dict[str, str]:
    return {"client_software_name": "kprod", "client_software_version": "1"}
