"""A node's ports and properties, and where its tests run."""

import contextlib
import socket
from pathlib import Path

import pytest

from tests.plugins.kafka_settings import (
    CONTROLLER_ID,
    PortLease,
    java_command,
    node_settings,
    properties,
    quiet_ports,
)
from tests.plugins.kafka_together import scope_of


@pytest.mark.parametrize(
    ("ephemeral", "ports"),
    [
        ("32768\t60999\n", range(10_000, 32_768)),
        ("1024 60999", range(61_000, 65_536)),
        ("1024 65535", range(10_000, 65_536)),
    ],
)
def test_ports_keep_out_of_the_ephemeral_range(ephemeral: str, ports: range) -> None:
    """Below it where there is room, else above it, else anywhere."""
    assert quiet_ports(ephemeral) == ports


def test_ports_have_a_default_where_the_system_does_not_tell() -> None:
    """Without the kernel's word the usual range is kept clear of."""
    assert quiet_ports(None).start == 10_000
    assert len(quiet_ports(None)) > 20_000


def test_two_leases_never_share_a_port() -> None:
    """A port is held for its lease though nobody listens on it yet, and free again after it."""
    with contextlib.closing(PortLease(3)) as one, contextlib.closing(PortLease(3)) as other:
        assert len({*one.ports, *other.ports}) == 6
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", one.ports[0]))
        assert listener.getsockname()[1] == one.ports[0]


def test_a_single_node_is_its_own_controller(tmp_path: Path) -> None:
    """One broker has both roles and both listeners."""
    settings = node_settings(1, ports={1: 10_001}, controller_port=10_000, directory=tmp_path)
    assert settings["process.roles"] == "broker,controller"
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:10000"
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:10001,CONTROLLER://127.0.0.1:10000"


def test_several_brokers_have_a_controller_apart(tmp_path: Path) -> None:
    """Killing a broker then never takes the controller with it."""
    ports = {1: 10_001, 2: 10_002, 3: 10_003}
    broker = node_settings(2, ports=ports, controller_port=10_000, directory=tmp_path)
    assert broker["process.roles"] == "broker"
    assert broker["listeners"] == "PLAINTEXT://127.0.0.1:10002"
    controller = node_settings(
        CONTROLLER_ID, ports=ports, controller_port=10_000, directory=tmp_path
    )
    assert controller["process.roles"] == "controller"
    assert controller["listeners"] == "CONTROLLER://127.0.0.1:10000"


def test_properties_and_command_are_plain_text(tmp_path: Path) -> None:
    """Java's settings are written by name; without a log file nothing is logged."""
    assert properties({"node.id": "1", "log.dirs": "/d"}) == "node.id=1\nlog.dirs=/d\n"
    command = java_command("java", "a.jar:b.jar", flags=("-Xmx1g",), log=tmp_path / "node.log")
    assert command[:2] == ["java", "-Xmx1g"]
    assert command[-3:] == [f"-Dkprod.node.log={tmp_path / 'node.log'}", "-cp", "a.jar:b.jar"]
    assert "-Dlog4j2.level=OFF" in java_command("java", "a.jar", flags=(), log=None)


def test_tests_that_meet_kafka_are_handed_out_together() -> None:
    """The file's name decides, not the directory's or the test's."""
    together = {
        scope_of(f"tests/{path}::test_it") for path in ("a/test_kafka.py", "test_kafka_b.py")
    }
    assert together == {"kafka"}
    alone = "tests/kafka/test_sender.py::test_kafka"
    assert scope_of(alone) == alone
