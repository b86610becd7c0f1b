"""The settings with which each kind of client connects to an embedded cluster.

Thread-safety: pure functions.
Source: librdkafka's CONFIGURATION.md (2.16), kafka-python 3.0, aiokafka 0.14.
"""

from collections.abc import Callable
from typing import Any

from kprod.broker.security.broker_security import BrokerSecurity
from kprod.broker.security.token_settings import token_settings
from kprod.errors import ConfigError

_CLIENTS = ("kprod", "confluent", "kafka", "aiokafka")


def client_settings(
    security: BrokerSecurity,
    bootstrap_servers: str,
    *,
    names: str,
    user: str | None,
    mechanism: str | None,
    sign: Callable[[str], str],
) -> dict[str, Any]:
    """Return a client's settings; see `EmbeddedCluster.client_settings`."""
    if names not in _CLIENTS:
        raise ConfigError(f"names={names!r} is not one of {', '.join(_CLIENTS)}")
    dot = "." if names == "confluent" else "_"
    settings: dict[str, Any] = {f"bootstrap{dot}servers": bootstrap_servers}
    if security.protocol != "PLAINTEXT":
        settings[f"security{dot}protocol"] = security.protocol
    if security.uses_tls:
        settings.update(_trust(names))
    if security.uses_sasl:
        mechanism = security.mechanisms[0] if mechanism is None else mechanism
        if mechanism not in security.mechanisms:
            known = ", ".join(security.mechanisms)
            raise ConfigError(f"mechanism={mechanism!r} is not one of {known}")
        settings[f"sasl{dot}mechanism"] = mechanism
        if mechanism == "OAUTHBEARER":
            name = next(iter(security.users), "alice") if user is None else user
            settings.update(token_settings(names, lambda: sign(name)))
        else:
            settings.update(_login(security, names, user))
    return settings


def _login(security: BrokerSecurity, names: str, user: str | None) -> dict[str, str]:
    user = next(iter(security.users)) if user is None else user
    if user not in security.users:
        raise ConfigError(f"user={user!r} is not one of {', '.join(security.users)}")
    password = security.users[user]
    if names == "confluent":
        return {"sasl.username": user, "sasl.password": password}
    return {"sasl_plain_username": user, "sasl_plain_password": password}


def _trust(names: str) -> dict[str, Any]:
    import ssl  # noqa: PLC0415 - loads OpenSSL

    from kprod.broker.security.authority import authority  # noqa: PLC0415 - needs an extra

    pem = authority().pem
    if names == "kprod":
        return {"ssl_cadata": pem}
    if names == "confluent":
        return {"ssl.ca.pem": pem}
    return {"ssl_context": ssl.create_default_context(cadata=pem)}
