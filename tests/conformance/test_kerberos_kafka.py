"""Logins by Kerberos at Apache Kafka, with a KDC of the tests, and the name of each mistake."""

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kprod import Producer
from kprod.errors import AuthenticationFailed
from tests.conformance.renewals import BATCH_BYTES, renewed
from tests.plugins.kafka_kerberos import KerberosKafka
from tests.plugins.kafka_secured import TOPIC
from tests.plugins.kerberos import Realm, require

ROOT = Path(__file__).parent.parent.parent
TIMEOUT_S = 100

SEND = """
import json, sys
import kprod

try:
    with kprod.Producer(json.loads(sys.argv[1]), max_block_ms=30_000) as producer:
        print(producer.send(sys.argv[2], b"one").result(30).offset)
except kprod.errors.AuthenticationFailed as error:
    print(error)
"""


def settings_for(
    kafka: KerberosKafka, realm: Realm, listener: str = "SASL_PLAINTEXT", user: str = "alice"
) -> dict[str, Any]:
    """Settings of a client that logs in by a keytab."""
    settings: dict[str, Any] = {
        "bootstrap_servers": kafka.secured_address(listener),
        "security_protocol": "SASL_SSL" if listener == "SASL_SSL" else "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_principal": user,
        "sasl_kerberos_keytab": str(realm.keytab_path(user)),
    }
    if listener == "SASL_SSL":
        settings["ssl_cadata"] = kafka.ca_pem
    return settings


def by_tickets(settings: dict[str, Any]) -> dict[str, Any]:
    """The same without a keytab: the login takes the tickets of the environment."""
    return {name: value for name, value in settings.items() if "kerberos" not in name}


def deliver(settings: dict[str, Any]) -> int:
    """Send one record; returns its offset."""
    with Producer(settings) as producer:
        return producer.send(TOPIC, b"one").result(60).offset


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_keytab(kafka_kerberos: KerberosKafka, in_realm: Realm, listener: str) -> None:
    """With and without TLS."""
    assert deliver(settings_for(kafka_kerberos, in_realm, listener)) >= 0


def test_the_first_principal_of_a_keytab(kafka_kerberos: KerberosKafka, in_realm: Realm) -> None:
    """It logs in where no principal is named."""
    settings = settings_for(kafka_kerberos, in_realm)
    del settings["sasl_kerberos_principal"]
    assert deliver(settings) >= 0


def test_tickets_of_the_environment(
    kafka_kerberos: KerberosKafka, in_realm: Realm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of `kinit`, where there is no keytab."""
    monkeypatch.setenv("KRB5CCNAME", in_realm.tickets("alice"))
    assert deliver(by_tickets(settings_for(kafka_kerberos, in_realm))) >= 0


def test_java_s_form_of_a_login(kafka_kerberos: KerberosKafka, in_realm: Realm) -> None:
    """As Kafka's page on Kerberos has it."""
    keytab = in_realm.keytab_path("alice")
    settings = {
        "bootstrap.servers": kafka_kerberos.secured_address("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
        f' storeKey=true keyTab="{keytab}" principal="alice@KPROD.TEST";',
    }
    assert deliver(settings) >= 0


def test_an_address_instead_of_the_name(kafka_kerberos: KerberosKafka, in_realm: Realm) -> None:
    """The name in the broker's principal is a setting."""
    settings = settings_for(kafka_kerberos, in_realm)
    port = settings["bootstrap_servers"].split(":")[1]
    settings["bootstrap_servers"] = f"127.0.0.1:{port}"
    with (
        Producer(settings, max_block_ms=20_000) as producer,
        pytest.raises(AuthenticationFailed, match=r"for kafka@127\.0\.0\.1: .*not found"),
    ):
        producer.send(TOPIC, b"one")
    assert deliver(settings | {"sasl_kerberos_domain_name": "localhost"}) >= 0


def without_keytab(realm: Realm) -> dict[str, Any]:
    """A path that names no file."""
    return {"sasl_kerberos_keytab": str(realm.directory / "nothing")}


def with_anothers_keytab(realm: Realm) -> dict[str, Any]:
    """The keys of another principal."""
    return {"sasl_kerberos_keytab": str(realm.keytab("bob"))}


def with_an_old_keytab(realm: Realm) -> dict[str, Any]:
    """Keys that were changed afterwards."""
    keytab = realm.keytab("dora")
    realm.administer("change_password -randkey dora")
    return {"sasl_kerberos_principal": "dora", "sasl_kerberos_keytab": str(keytab)}


def of_nobody(realm: Realm) -> dict[str, Any]:
    """A principal that was removed."""
    keytab = realm.keytab("nobody")
    realm.administer("delete_principal -force nobody")
    return {"sasl_kerberos_principal": "nobody", "sasl_kerberos_keytab": str(keytab)}


def for_an_unknown_service(_realm: Realm) -> dict[str, Any]:
    """A service without a principal."""
    return {"sasl_kerberos_service_name": "unknown"}


def for_another_service(realm: Realm) -> dict[str, Any]:
    """A service that the broker is not."""
    realm.administer("addprinc -randkey other/localhost")
    return {"sasl_kerberos_service_name": "other"}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (without_keytab, "no ticket of alice for kafka@localhost: .*/nothing' is no file"),
        (with_anothers_keytab, "no ticket of alice for .*/bob.keytab' needs its current key"),
        (with_an_old_keytab, "no ticket of dora for .*/dora.keytab' needs its current key"),
        (of_nobody, "no ticket of nobody for kafka@localhost: .*not found in Kerberos database"),
        (for_an_unknown_service, "for unknown@localhost: .*not found in Kerberos database"),
        (for_another_service, r"rejected user 'alice' \(GSSAPI\): Authentication failed"),
    ],
)
def test_a_mistake(
    kafka_kerberos: KerberosKafka,
    in_realm: Realm,
    change: Callable[[Realm], dict[str, Any]],
    text: str,
) -> None:
    """Told within the first attempt, by what Kerberos or the broker says."""
    settings = settings_for(kafka_kerberos, in_realm) | change(in_realm)
    with (
        Producer(settings, max_block_ms=20_000) as producer,
        pytest.raises(AuthenticationFailed, match=text) as caught,
    ):
        producer.send(TOPIC, b"one")
    assert str(caught.value).startswith("cannot connect to broker localhost:")


@pytest.mark.slow
def test_tickets_that_are_missing_or_expired(
    kafka_kerberos: KerberosKafka, in_realm: Realm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody renews the tickets of `kinit`, which the text says."""
    settings = by_tickets(settings_for(kafka_kerberos, in_realm))
    with (
        Producer(settings, max_block_ms=20_000) as producer,
        pytest.raises(AuthenticationFailed, match="have kinit fill the ticket cache"),
    ):
        producer.send(TOPIC, b"one")
    monkeypatch.setenv("KRB5CCNAME", in_realm.tickets("alice", life="1s"))
    threading.Event().wait(2.1)  # the library goes by the real time, in whole seconds
    with (
        Producer(settings, max_block_ms=20_000) as producer,
        pytest.raises(AuthenticationFailed, match=r"(?i)expired"),
    ):
        producer.send(TOPIC, b"one")


def test_no_kdc(
    kafka_kerberos: KerberosKafka, in_realm: Realm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing listens at its port."""
    text = (in_realm.directory / "krb5.conf").read_text("utf-8")
    nobody = in_realm.directory / "nobody.conf"
    nobody.write_text(text.replace("kdc = 127.0.0.1:", "kdc = 127.0.0.1:1\n # "), "utf-8")
    in_realm.keytab("emil")  # no tickets of earlier logins
    monkeypatch.setenv("KRB5_CONFIG", str(nobody))
    with (
        Producer(
            settings_for(kafka_kerberos, in_realm, user="emil"), max_block_ms=20_000
        ) as producer,
        pytest.raises(AuthenticationFailed, match="Cannot contact any KDC"),
    ):
        producer.send(TOPIC, b"one")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "text"), [("", r"\d+"), (" kdc_timesync = 0", ".*Clock skew too great.*")]
)
def test_a_clock_that_is_wrong(
    kafka_kerberos: KerberosKafka, in_realm: Realm, more: str, text: str
) -> None:
    """By twenty minutes: the library takes the KDC's time, unless its settings forbid that."""
    program = shutil.which("faketime")
    if program is None:
        require("no faketime: install faketime")
    settings = settings_for(kafka_kerberos, in_realm)
    path = in_realm.write_settings(f"skew{len(more)}.conf", more)
    done = subprocess.run(
        [str(program), "-f", "+20m", sys.executable, "-c", SEND, json.dumps(settings), TOPIC],
        cwd=ROOT,
        env={
            "PATH": "/usr/bin:/bin",
            "KRB5_CONFIG": str(path),
            "KRB5CCNAME": f"FILE:{in_realm.directory}/no-tickets",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(text, done.stdout.strip()), done.stdout


def check_renewals(kafka: KerberosKafka, realm: Realm, renewals: int) -> None:
    """No gap, nothing twice, in order, no disconnection; the tickets end sooner than the run."""
    topic, user = f"renewed-{renewals}", f"short-{renewals}"
    kafka.create_topic(topic)
    realm.keytab(user, options="-maxlife 2s")
    with Producer(settings_for(kafka, realm, "RENEWED", user), batch_size=BATCH_BYTES) as producer:
        found = renewed(producer, topic, renewals)
    assert found.failed == found.disconnections == 0


@pytest.mark.slow
@pytest.mark.usefixtures("early_logins")
def test_logins_are_renewed_in_place(kafka_kerberos: KerberosKafka, in_realm: Realm) -> None:
    """Three times, with tickets that last two seconds."""
    check_renewals(kafka_kerberos, in_realm, 3)


@pytest.mark.long
@pytest.mark.usefixtures("early_logins")
def test_logins_are_renewed_for_a_minute(kafka_kerberos: KerberosKafka, in_realm: Realm) -> None:
    """Every 1.2 s."""
    check_renewals(kafka_kerberos, in_realm, 46)
