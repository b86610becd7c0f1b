"""Settings from the environment, and those of one file that several commands share."""

import pytest

from kprod.config.environment import client_settings, settings_of_environment
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
def test_a_variable_that_is_nearly_a_setting_is_refused(variable: str, meant: str) -> None:
    """It was meant as one; its value, which may be a password, is not shown."""
    with pytest.raises(ConfigError, match=f"{variable}, which is no setting; .* {meant}") as told:
        settings_of_environment({variable: "canary"})
    assert "canary" not in str(told.value)


def test_settings_of_a_producer_are_left_out_for_others() -> None:
    """What nothing knows stays, and is refused where settings are checked."""
    settings = {
        "bootstrap.servers": "a:1",
        "linger.ms": 5,
        "acks": "all",
        "request_timeout_ms": 7,
        "ssl.ca.location": "ca.pem",
        "lingr.ms": 5,
    }
    kept = client_settings(settings)
    assert kept == {name: settings[name] for name in settings if name not in {"linger.ms", "acks"}}
