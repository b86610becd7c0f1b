"""The client's side of GSSAPI, beside a broker's side that does what a real one never does.

Both sides are MIT's library, in a realm of the tests.
"""

import operator
from collections.abc import Callable
from typing import Any

import pytest

from kprod.config import SecurityConfig
from kprod.errors import AuthenticationFailed
from kprod.network.sasl.gss import GssLogin, load_gssapi
from tests.plugins.kerberos import SERVICE, Realm

NO_LAYER = b"\x01\0\0\0"


def login(realm: Realm, **settings: object) -> GssLogin:
    """The login of alice at a broker on localhost."""
    given = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_principal": "alice",
        "sasl_kerberos_keytab": str(realm.keytab_path("alice")),
    }
    return GssLogin(SecurityConfig.parse(given | settings), "localhost.")


class Acceptor:
    """The broker's side of one exchange."""

    def __init__(self, realm: Realm) -> None:
        """Load the service's key."""
        gssapi: Any = load_gssapi()
        store = {"keytab": str(realm.keytab_path(SERVICE))}
        credentials = gssapi.Credentials(usage="accept", store=store)
        self._context = gssapi.SecurityContext(creds=credentials, usage="accept")

    def take(self, token: bytes) -> bytes:
        """Answer the first message."""
        return bytes(self._context.step(token))

    def offer(self, layers: bytes = NO_LAYER) -> bytes:
        """Offer security layers."""
        return bytes(self._context.wrap(layers, False).message)

    def chosen(self, message: bytes) -> bytes:
        """Read the client's choice."""
        return bytes(self._context.unwrap(message).message)


def test_an_exchange(in_realm: Realm) -> None:
    """The client proves itself, has the broker prove itself, and chooses no layer."""
    broker, client = Acceptor(in_realm), login(in_realm)
    assert client.answer(broker.take(client.first())) == b""
    chosen = client.answer(broker.offer(b"\x07\0\xff\xff"))
    assert chosen is not None
    assert broker.chosen(chosen) == NO_LAYER
    assert client.answer(b"") is None


@pytest.mark.parametrize(
    "reply",
    [
        lambda _: b"",
        lambda _: b"\x60\x03abc",
        operator.itemgetter(slice(-1)),
        lambda token: token[:-1] + bytes([token[-1] ^ 1]),
    ],
    ids=["nothing", "nonsense", "cut", "flipped"],
)
def test_a_broker_that_does_not_prove_itself(
    in_realm: Realm, reply: Callable[[bytes], bytes]
) -> None:
    """Its first response is from the ticket's key, whole and unchanged, or the login fails."""
    broker, client = Acceptor(in_realm), login(in_realm)
    token = broker.take(client.first())
    with pytest.raises(AuthenticationFailed, match="Kerberos rejects the message of the broker"):
        client.answer(reply(token))


def test_an_answer_of_another_login(in_realm: Realm) -> None:
    """It proves nothing about this one."""
    broker, client, other = Acceptor(in_realm), login(in_realm), login(in_realm)
    client.first()
    with pytest.raises(AuthenticationFailed, match="Kerberos rejects"):
        client.answer(broker.take(other.first()))


@pytest.mark.parametrize(
    ("layers", "text"),
    [
        (b"\x06\0\xff\xff", "wants to protect messages by GSSAPI"),
        (b"\x01\0\0", "in 3 bytes instead of 4"),
        (b"\x01\0\0\0\0", "in 5 bytes instead of 4"),
    ],
)
def test_layers_that_are_not_served(in_realm: Realm, layers: bytes, text: str) -> None:
    """Messages are protected by TLS alone."""
    broker, client = Acceptor(in_realm), login(in_realm)
    client.answer(broker.take(client.first()))
    with pytest.raises(AuthenticationFailed, match=text):
        client.answer(broker.offer(layers))


@pytest.mark.parametrize("offer", [NO_LAYER, b"", bytes(100)])
def test_an_offer_without_the_key(in_realm: Realm, offer: bytes) -> None:
    """An offer that is not wrapped is rejected, or a stranger could make it."""
    broker, client = Acceptor(in_realm), login(in_realm)
    client.answer(broker.take(client.first()))
    with pytest.raises(AuthenticationFailed, match="Kerberos rejects"):
        client.answer(offer)


def test_messages_are_bounded(in_realm: Realm) -> None:
    """Neither large ones nor further ones are processed."""
    broker, client = Acceptor(in_realm), login(in_realm)
    token = broker.take(client.first())
    with pytest.raises(AuthenticationFailed, match="has 65537 bytes"):
        client.answer(bytes((64 << 10) + 1))
    client.answer(token)
    client.answer(broker.offer())
    with pytest.raises(AuthenticationFailed, match="after the login by GSSAPI was over"):
        client.answer(broker.offer())


def test_a_keytab_in_java_s_form(in_realm: Realm) -> None:
    """A path with FILE: before it, as in krb5.conf."""
    keytab = f"FILE:{in_realm.keytab_path('alice')}"
    assert Acceptor(in_realm).take(login(in_realm, sasl_kerberos_keytab=keytab).first())
