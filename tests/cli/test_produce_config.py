"""`kprod produce --config`: settings from a file, with a login, at an embedded cluster."""

from pathlib import Path

import pytest

from kprod.broker import BrokerSecurity, EmbeddedCluster
from tests.cli import running

SECURITY = BrokerSecurity(protocol="SASL_PLAINTEXT", users={"alice": "canary-1"})


def write(path: Path, cluster: EmbeddedCluster, more: dict[str, str]) -> str:
    """A file with a login."""
    settings = cluster.client_settings(mechanism="PLAIN") | more
    quote = '"' if path.suffix == ".toml" else ""
    lines = [f"{name}={quote}{value}{quote}\n" for name, value in settings.items()]
    path.write_text("".join(lines), "utf-8")
    return str(path)


@pytest.mark.parametrize("name", ["client.properties", "client.toml"])
def test_a_login_from_a_file(name: str, tmp_path: Path) -> None:
    """Brokers and password come from it, and typed options win over it."""
    with EmbeddedCluster(1, {"orders": 1}, security=SECURITY) as cluster:
        path = write(tmp_path / name, cluster, {"compression_type": "gzip"})
        result = running.run("produce", "-F", path, "-t", "orders", "-z", "lz4", stdin=b"a\nb\n")
        assert result.exit_code == 0, result.output
        assert [record.value for record in cluster.records("orders")[0]] == [b"a", b"b"]
    assert "canary" not in result.output


def test_a_wrong_password_in_a_file_is_not_shown(tmp_path: Path) -> None:
    """The text names the user."""
    with EmbeddedCluster(1, {"orders": 1}, security=SECURITY) as cluster:
        path = write(tmp_path / "c.properties", cluster, {"sasl_plain_password": "canary-2"})
        result = running.run("produce", "--config", path, "-t", "orders", stdin=b"a\n")
    assert result.exit_code == 1
    assert "rejected user 'alice'" in result.output
    assert "canary" not in result.output


def test_a_file_without_brokers_is_rejected(tmp_path: Path) -> None:
    """The text has both ways to name them."""
    path = tmp_path / "c.properties"
    path.write_text("linger.ms=5\n", "utf-8")
    result = running.run("produce", "--config", str(path), "-t", "orders", stdin=b"a\n")
    assert result.exit_code == 2
    assert "--bootstrap" in result.output
    assert "bootstrap.servers" in result.output


def test_a_mistake_in_a_file_is_a_mistake_of_usage(tmp_path: Path) -> None:
    """A setting that does not exist is named, its value is not shown."""
    path = tmp_path / "c.properties"
    path.write_text("bootstrap.servers=localhost:1\nsasl.pasword=canary-1\n", "utf-8")
    result = running.run("produce", "--config", str(path), "-t", "orders", stdin=b"a\n")
    assert result.exit_code == 2
    assert "sasl.pasword" in result.output
    assert "canary" not in result.output
