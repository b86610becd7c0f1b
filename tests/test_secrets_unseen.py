"""Clients at work: no secret is in the `repr` of an object, in metrics, or in a dump of threads."""

import faulthandler
import gc
from pathlib import Path
from typing import Any

import pytest

from kprod import Consumer, Producer
from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.errors import KprodError
from tests.plugins.canary import forms

PASSWORD = "correct horse battery"  # noqa: S105 - of this test
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")


def texts_of_objects() -> list[str]:
    """The `repr` of each object of kprod's own types that the garbage collector follows."""
    found = []
    for each in gc.get_objects():
        if str(type(each).__module__).startswith("kprod"):
            try:
                found.append(repr(each))
            except (KprodError, AttributeError, TypeError):  # an object that is half made
                continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_clients_at_work(mechanism: str, tmp_path: Path) -> None:
    """With a password or a token, and with a client certificate's key."""
    secured = BrokerSecurity(
        protocol="SASL_SSL",
        users={"alice": PASSWORD},
        mechanisms=MECHANISMS,
        client_certificates="required",
    )
    with EmbeddedCluster(1, {"orders": 1}, security=secured) as cluster:
        alice = cluster.client_certificate("alice")
        settings: dict[str, Any] = cluster.client_settings(user="alice", mechanism=mechanism)
        settings |= {"ssl_certdata": alice.certificate_pem, "ssl_keydata": alice.key_pem}
        tokens: list[str] = [] if mechanism == "OAUTHBEARER" else [PASSWORD]
        if mechanism == "OAUTHBEARER":
            tokens.append(cluster.token("alice"))
            settings["sasl_oauth_token_provider"] = lambda: tokens[0]
        with Producer(settings) as producer, Consumer(settings=settings) as consumer:
            producer.send("orders", b"one").result(30)
            consumer.assign([("orders", 0)])
            consumer.seek_to_beginning()
            assert consumer.poll(30) is not None
            shown = [*texts_of_objects(), repr(producer.metrics()), repr(consumer.metrics())]
            with (tmp_path / "threads").open("w+", encoding="utf-8") as file:
                faulthandler.dump_traceback(file)
                file.seek(0)
                shown.append(file.read())
    assert len(shown) > 100
    for secret in (*tokens, alice.key_pem):
        assert [text for text in shown if any(form in text for form in forms(secret))] == []
