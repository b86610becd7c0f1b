"""Secrets are read where the task runs, and are in no text."""

import traceback
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod.errors import ConfigError
from kprod.secret import Secret
from kprod.spark.references import FILE_BYTES_MAX, is_reference, resolve, scrub, secrets_in


def test_a_variable_and_a_file_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both kinds of references give what they name; a file's line break is not part of it."""
    monkeypatch.setenv("BROKER_PASSWORD", "from the environment")
    (tmp_path / "password").write_text("from the file\n")
    settings = {
        "a": "env:BROKER_PASSWORD",
        "b": f"file:{tmp_path}/password",
        "c": "plain",
        "d": "env:9092",
    }
    assert resolve(settings) == {
        "a": "from the environment",
        "b": "from the file",
        "c": "plain",
        "d": "env:9092",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("env:NAME", True),
        ("file:/run/secrets/x", True),
        ("env:9092", False),  # a host that is called env
        ("file:relative", False),
        ("environment", False),
        ("env:", False),
        ("${env:NAME}", False),
    ],
)
def test_values_that_are_references(text: str, expected: bool) -> None:
    """Only what cannot be meant as a value."""
    assert is_reference(text) is expected


def test_what_cannot_be_read_is_named_with_its_place(tmp_path: Path) -> None:
    """The error names the setting and the place, never what lies there."""
    with pytest.raises(ConfigError, match=r"sasl\.password=env:NOT_SET_ANYWHERE.*executorEnv"):
        resolve({"sasl.password": "env:NOT_SET_ANYWHERE"})
    with pytest.raises(ConfigError, match="No such file"):
        resolve({"sasl.password": f"file:{tmp_path}/nothing"})
    (tmp_path / "binary").write_bytes(b"\xff\xfecanary")
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        resolve({"sasl.password": f"file:{tmp_path}/binary"})
    assert caught.value.__context__ is None  # its text would hold the bytes
    assert caught.value.__traceback__ is not None
    below = caught.value.with_traceback(caught.value.__traceback__.tb_next)
    shown = traceback.TracebackException.from_exception(below, capture_locals=True)
    assert "canary" not in "".join(shown.format())
    (tmp_path / "long").write_bytes(b"x" * (FILE_BYTES_MAX + 1))
    with pytest.raises(ConfigError, match="longer than"):
        resolve({"sasl.password": f"file:{tmp_path}/long"})


def test_secrets_are_values_read_and_values_of_sensitive_names() -> None:
    """A value that is in the options under a telling name is a secret too."""
    settings = {"a": "env:A", "sasl.password": "hunter2", "linger.ms": "5", "b": "env:B"}
    resolved = {"a": "from A", "sasl.password": "hunter2", "linger.ms": "5", "b": ""}
    assert texts_in(settings, resolved) == ("hunter2", "from A")


def test_parts_of_secrets_are_secrets() -> None:
    """The password in a login of Java's form, and the lines of a key."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    jaas = f'{module} required username="alice" password="hunter2";'
    key = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49\n-----END PRIVATE KEY-----"
    settings = {"sasl.jaas.config": "env:A", "ssl.keystore.key": "file:/b"}
    found = texts_in(settings, {"sasl.jaas.config": jaas, "ssl.keystore.key": key})
    assert set(found) == {jaas, "hunter2", key, "MIGHAgEAMBMGByqGSM49"}
    assert texts_in({"sasl.jaas.config": "env:A"}, {"sasl.jaas.config": "no login"})


def test_paths_of_files_are_no_secrets() -> None:
    """Although their names are like those of secrets."""
    settings = {"ssl.key.location": "/key.pem", "sasl_oauthbearer_token_file": "/token"}
    assert texts_in(settings, settings) == ()


def test_a_file_must_be_where_the_task_runs(tmp_path: Path) -> None:
    """The error names the setting and the path."""
    path = tmp_path / "ca.pem"
    with pytest.raises(ConfigError, match=r"ssl\.ca\.location=.*ca\.pem: .* on every executor"):
        resolve({"ssl.ca.location": str(path)})
    path.touch()
    assert resolve({"ssl.ca.location": str(path)}) == {"ssl.ca.location": str(path)}


def test_numbers_choices_and_addresses_are_no_secrets(tmp_path: Path) -> None:
    """A reference is an error if the setting accepts nothing else; other texts are kept."""
    settings = {
        "bootstrap.servers": "env:BROKERS",
        "acks": "env:ACKS",
        "linger.ms": f"file:{tmp_path}/linger",
        "client.id": "env:NAME",
    }
    plain = {"bootstrap.servers": "one:9092,two:9093", "acks": "all", "linger.ms": "20"}
    assert texts_in(settings, {**plain, "client.id": "me"}) == ("me",)
    slips = {"bootstrap.servers": "hunter2", "acks": "hunter3", "linger.ms": "hunter4"}
    assert set(texts_in(settings, {**slips, "client.id": ""})) == {
        "hunter2",
        "hunter3",
        "hunter4",
    }


def texts_in(settings: Mapping[str, str], resolved: Mapping[str, str]) -> tuple[str, ...]:
    """The texts of the secrets."""
    kinds = ("password", "jaas", "key")
    secret = {
        name: Secret(text)
        if any(it in name for it in kinds) and name != "ssl.key.location"
        else text
        for name, text in resolved.items()
    }
    return tuple(it.reveal() for it in secrets_in(settings, secret))


@given(st.text(min_size=4), st.text(), st.text())
def test_no_secret_is_left(secret: str, before: str, after: str) -> None:
    """Neither as it is nor as a repr writes it."""
    scrubbed = scrub(f"{before}{secret}{after} {secret!r}", [Secret(secret)])
    if secret not in f"{before}***{after} '***' \"***\"":
        assert secret not in scrubbed
