"""SCRAM against the RFC's example, and against brokers that cannot be trusted."""

import base64

import pytest

from kprod.broker.sasl.credentials import Credentials
from kprod.broker.sasl.verifiers import ScramVerifier
from kprod.config import Secret
from kprod.errors import AuthenticationFailed
from kprod.network.sasl.plain import PlainLogin
from kprod.network.sasl.scram import SCRAM_HASHES, SaltedPasswords, ScramLogin

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="


def login(user: str = "user", mechanism: str = "SCRAM-SHA-256", text: str = "pencil") -> ScramLogin:
    """An exchange with the RFC's nonce."""
    passwords = SaltedPasswords(Secret(text), SCRAM_HASHES[mechanism])
    return ScramLogin(user, mechanism, passwords, nonce=NONCE)


def test_the_example_of_the_rfc() -> None:
    """Byte for byte."""
    exchange = login()
    assert exchange.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.answer(SERVER_FIRST) == CLIENT_FINAL
    assert exchange.answer(SERVER_FINAL) is None


@pytest.mark.parametrize("mechanism", SCRAM_HASHES)
@pytest.mark.parametrize(("user", "text"), [("a=b,c", "pa①ss wörd"), ("=2C", "=,")])
def test_any_characters(mechanism: str, user: str, text: str) -> None:
    """Names are escaped, passwords are taken as they are."""
    exchange = login(user, mechanism, text)
    verifier = ScramVerifier(Credentials({user: text}), mechanism)
    proof = exchange.answer(verifier.take(exchange.first()).message)
    assert proof is not None
    verdict = verifier.take(proof)
    assert verdict.user == user
    assert exchange.answer(verdict.message) is None


def first(nonce: str = f"{NONCE}xyz", salt: str = SALT, iterations: str = "4096") -> bytes:
    """A server's first message."""
    return f"r={nonce},s={salt},i={iterations}".encode()


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (first(nonce=NONCE), "nonce does not continue"),
        (first(nonce=NONCE[:-1]), "nonce does not continue"),
        (first(nonce="x" + NONCE), "nonce does not continue"),
        (first(iterations="1"), "asks for 1 iterations"),
        (first(iterations="4095"), "asks for 4095 iterations"),
        (first(iterations="1000001"), "asks for 1000001 iterations"),
        (first(iterations="1000000000"), "asks for 1000000000 iterations"),
        (first(iterations="9" * 5_000), "more than 4096"),
        (first(iterations="-1"), "not one of SCRAM"),
        (first(iterations="0"), "not one of SCRAM"),
        (first(salt="?"), "not one of SCRAM"),
        (first(salt="abc"), "malformed base64"),
        (b"m=must," + first(), "not one of SCRAM"),
        (first() + b",m=must", "not one of SCRAM"),
        (first() + b",i=1", "not one of SCRAM"),
        (first() + b",r=again", "not one of SCRAM"),
        (first() + b",s=again", "not one of SCRAM"),
        (b"", "not one of SCRAM"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_first_message_that_cannot_be_trusted(message: bytes, text: str) -> None:
    """Nothing that depends on the password leaves."""
    exchange = login()
    exchange.first()
    with pytest.raises(AuthenticationFailed, match=text):
        exchange.answer(message)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"", "did not prove"),
        (b"v=", "did not prove"),
        (b"x=1", "did not prove"),
        (SERVER_FINAL.replace(b"6", b"7", 1), "is wrong"),
        (b"v=" + base64.b64encode(bytes(32)), "is wrong"),
        (b"v=abc", "malformed base64"),
        (b"e=other-error\x1b[2J", r"rejected the login: other-error\\x1b"),
    ],
)
def test_a_broker_must_prove_itself(message: bytes, text: str) -> None:
    """A success without the proof is none."""
    exchange = login()
    exchange.first()
    exchange.answer(SERVER_FIRST)
    with pytest.raises(AuthenticationFailed, match=text):
        exchange.answer(message)


def test_a_salted_password_is_derived_once() -> None:
    """For each salt and number of iterations, and a bounded number of them; it is never shown."""
    passwords = SaltedPasswords(Secret("pencil"), "sha256")
    assert passwords.salted(b"a", 4_096) is passwords.salted(b"a", 4_096)
    assert passwords.salted(b"a", 4_097) != passwords.salted(b"a", 4_096)
    for number in range(20):
        passwords.salted(b"%d" % number, 1)
    assert len(passwords._found) <= 8
    assert "pencil" not in repr(passwords)


def test_plain_is_one_message() -> None:
    """No other user is asked for, and nothing may come back."""
    exchange = PlainLogin("alice", Secret("wörd"))
    assert exchange.first() == "\0alice\0wörd".encode()
    assert exchange.answer(b"") is None
    with pytest.raises(AuthenticationFailed, match="3 bytes"):
        exchange.answer(b"abc")
