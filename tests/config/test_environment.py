"""Settings from the environment, and those of one file that several commands share."""

import pytest

from kprod.config import ClientConfig, ProducerConfig
from kprod.config.consumer_config import ConsumerConfig
from kprod.config.environment import settings_for, settings_of_environment
from kprod.errors import ConfigError


def test_variables_are_settings() -> None:
    """By kprod's name in capitals; whatever else is in the environment is left alone."""
    environment = {
        "KPROD_BOOTSTRAP_SERVERS": "a:1",
        "KPROD_LINGER_MS": "5",
        "KPROD_SASL_PLAIN_PASSWORD": "canary",
        "KPROD_CONFIG": "client.toml",
        "KPROD_CACHE_DIR": "/x",
        "PATH": "/bin",
        "LINGER_MS": "7",
    }
    assert settings_of_environment(environment) == {
        "bootstrap_servers": "a:1",
        "linger_ms": "5",
        "sasl_plain_password": "canary",
    }


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("KPROD_BOOTSTRAP_SERVER", "KPROD_BOOTSTRAP_SERVERS"),
        ("KPROD_SASL_PLAIN_PASWORD", "KPROD_SASL_PLAIN_PASSWORD"),
    ],
)
def test_a_variable_that_is_nearly_a_setting_is_rejected(variable: str, meant: str) -> None:
    """It was meant as one; its value, which may be a password, is not shown."""
    with pytest.raises(ConfigError, match=f"{variable}, which is not .* {meant}") as told:
        settings_of_environment({variable: "canary"})
    assert "canary" not in str(told.value)


SHARED = {
    "bootstrap.servers": "a:1",
    "request_timeout_ms": 7,
    "ssl.ca.location": "ca.pem",
    "lingr.ms": 5,
}
OF_PRODUCER = {"linger.ms": 5, "acks": "all", "transactional.id": "t"}
OF_CONSUMER = {
    "fetch.min.bytes": 1,
    "isolation_level": "read_committed",
    "group.id": "g",
    "enable.auto.commit": "false",
    "session.timeout.ms": 9,
    "heartbeat.interval.ms": 3,
    "partition.assignment.strategy": "range",
}


@pytest.mark.parametrize(
    ("table", "own"),
    [(ClientConfig, {}), (ProducerConfig, OF_PRODUCER), (ConsumerConfig, OF_CONSUMER)],
)
def test_settings_of_other_clients_are_left_out(
    table: type[ClientConfig], own: dict[str, object]
) -> None:
    """One file serves all; what nothing knows stays, and is rejected where settings are checked."""
    kept = settings_for(table, SHARED | OF_PRODUCER | OF_CONSUMER)
    assert kept == SHARED | own


def test_a_consumer_has_variables_too() -> None:
    """Its own settings as those that it shares with a producer."""
    environment = {"KPROD_FETCH_MIN_BYTES": "5", "KPROD_CLIENT_RACK": "r"}
    assert settings_of_environment(environment) == {"fetch_min_bytes": "5", "client_rack": "r"}
    with pytest.raises(ConfigError, match="did you mean KPROD_ISOLATION_LEVEL"):
        settings_of_environment({"KPROD_ISOLATION_LEVL": "read_committed"})
