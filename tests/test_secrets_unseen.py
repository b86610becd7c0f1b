"""Clients at work: no secret is in the `repr` of an object, in metrics, or in a dump of threads."""

import faulthandler
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kprod import AsyncConsumer, AsyncProducer, Consumer, Producer
from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.config.reading import names_a_secret
from kprod.config.security_config import SecurityConfig
from kprod.config.settings_table import rows
from kprod.errors import ConfigError, KprodError
from tests.plugins.canary import Watch, forms

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


MISTAKES: dict[str, dict[str, object]] = {
    "another setting": {"sasl_password": PASSWORD, "linger": 5, "fetch": 5},
    "a contradiction": {"sasl_password": PASSWORD, "sasl_mechanism": "PLAIN"},
    "its name": {"sasl_pasword": "", "sasl_passwort": PASSWORD},
    "its type": {"sasl_password": PASSWORD, "ssl_key_password": 5},
    "in JAAS": {"sasl_jaas_config": f'some.Module required password="{PASSWORD}" x'},
}


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("face", [Producer, Consumer, AsyncProducer, AsyncConsumer])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_settings(
    mistake: str, face: Callable[..., Any], *, by_name: bool
) -> None:
    """A tool that logs the locals of frames finds no secret of the application in kprod's."""
    settings = {"bootstrap_servers": "127.0.0.1:9", **MISTAKES[mistake]}

    def make() -> object:
        made = face(**settings) if by_name else face(settings)
        start = getattr(made, "start", None)  # the asynchronous ones read their settings there
        return made if start is None else start().send(None)

    with pytest.raises(ConfigError) as caught:
        make()
    watch = Watch()
    watch.keep(PASSWORD)
    watch.see_error(caught.value)
    assert watch.leaks == []


def test_the_names_of_secrets() -> None:
    """Every setting that takes a `Secret`, and no other one, is recognized by its name."""
    takes_secrets = {
        spelling: "secret" in setting.kind.describe()
        for name, setting, _ in rows(SecurityConfig)
        for spelling in setting.spellings(name)
    }
    assert any(takes_secrets.values())
    assert {name: names_a_secret(name) for name in takes_secrets} == takes_secrets
