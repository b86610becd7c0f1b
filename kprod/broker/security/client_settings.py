"""The settings with which each kind of client connects to an embedded cluster.

Thread-safety: functions of their arguments.
Source: librdkafka's CONFIGURATION.md (2.16), kafka-python 3.0, aiokafka 0.14.
"""

from typing import Any

from kprod.broker.security.broker_security import BrokerSecurity
from kprod.errors import ConfigError

_CLIENTS = ("kprod", "confluent", "kafka", "aiokafka")


def client_settings(
    security: BrokerSecurity, bootstrap_servers: str, *, names: str
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
    return settings


def _trust(names: str) -> dict[str, Any]:
    import ssl  # noqa: PLC0415 - loads OpenSSL

    from kprod.broker.security.authority import authority  # noqa: PLC0415 - needs an extra

    pem = authority().pem
    if names == "kprod":
        return {"ssl_cadata": pem}
    if names == "confluent":
        return {"ssl.ca.pem": pem}
    return {"ssl_context": ssl.create_default_context(cadata=pem)}
