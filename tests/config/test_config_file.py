"""Files of settings: Java's form with its escapes, TOML, and malformed files."""

from pathlib import Path

import pytest

from kprod.config import ProducerConfig
from kprod.config.config_file import (
    FILE_BYTES_MAX,
    parse_properties,
    read_config_file,
    with_overrides,
)
from kprod.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("  a=b", {"a": "b"}),
        ("# a=b\n! c=d\n\n  # e=f\n", {}),
        ("a=b\r\nc=d\re=f", {"a": "b", "c": "d", "e": "f"}),
        ("a=b\na=c", {"a": "c"}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\\\\\nc=d", {"a": "b\\c=d"}),
        ("a=b\\", {"a": "b"}),
        ("a=b\\\n# c", {"a": "b# c"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a\\ b=c", {"a b": "c"}),
        ("a\\:b:c", {"a:b": "c"}),
        ("a=b=c", {"a": "b=c"}),
        ("a==b", {"a": "=b"}),
        ("a=\\u00e9\\u2460", {"a": "é①"}),
        ("a=\\t\\n\\r\\f\\z", {"a": "\t\n\r\fz"}),
        ("a=${file:/etc/passwd}", {"a": "${file:/etc/passwd}"}),
        ('a=x required u="b" p="c;";', {"a": 'x required u="b" p="c;";'}),
        ("", {}),
    ],
)
def test_properties(text: str, expected: dict[str, str]) -> None:
    """As Java reads them."""
    assert parse_properties(text) == expected


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uxyzw", "ok=1\na=secret\\u"])
def test_a_malformed_escape_is_rejected(text: str, tmp_path: Path) -> None:
    """With its line and without the value."""
    path = tmp_path / "client.properties"
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=f"in line {text.count(chr(10)) + 1}") as caught:
        read_config_file(path)
    assert "secret" not in str(caught.value)


def test_toml(tmp_path: Path) -> None:
    """Tables are beginnings of names; numbers, flags and lists stay what they are."""
    path = tmp_path / "client.TOML"
    path.write_text(
        'bootstrap_servers = ["a:1", "b:2"]\nlinger_ms = 5\n[sasl]\nmechanism = "PLAIN"\n'
        '[ssl]\ntruststore.location = "ca.pem"\n',
        "utf-8",
    )
    assert read_config_file(path) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "linger_ms": 5,
        "sasl.mechanism": "PLAIN",
        "ssl.truststore.location": "ca.pem",
    }


def test_malformed_toml_is_rejected(tmp_path: Path) -> None:
    """With its place and without the value."""
    path = tmp_path / "client.toml"
    path.write_text('a = 1\npassword = canary-1"\n', "utf-8")
    with pytest.raises(ConfigError, match="at line 2") as caught:
        read_config_file(path)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"\xff", "UTF-8"), (b"#" * (FILE_BYTES_MAX + 1), "more than"), (None, "cannot be read")],
)
def test_a_value_that_is_no_text_is_rejected(
    content: bytes | None, text: str, tmp_path: Path
) -> None:
    """And files that are too long or missing."""
    path = tmp_path / "client.properties"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=text):
        read_config_file(path)


def test_a_file_of_kafkas_tools(tmp_path: Path) -> None:
    """Pasted from a vendor's page, it makes a producer's configuration."""
    path = tmp_path / "client.properties"
    path.write_text(
        "bootstrap.servers=broker.example.org:9092\n"
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
        '  username="key" \\\n'
        '  password="canary-1";\n',
        "utf-8",
    )
    config = ProducerConfig.parse(read_config_file(path))
    assert "canary" not in repr(config)
    assert config.security.sasl_plain_username == "key"


def test_overrides() -> None:
    """A name with dots is the same as one with underscores."""
    found = with_overrides({"linger.ms": 1, "acks": "all"}, {"linger_ms": 2})
    assert found == {"acks": "all", "linger_ms": 2}
