"""Parses the broker settings of `--set`.

Thread-safety: pure functions.
"""

import dataclasses
import difflib
from collections.abc import Mapping
from types import MappingProxyType

from kprod.broker import EmbeddedConfig
from kprod.config.quoting import shown
from kprod.errors import ConfigError

_KAFKA_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "auto.create.topics.enable": "auto_create_topics",
        "num.partitions": "default_partitions",
        "default.replication.factor": "default_replication_factor",
        "log.retention.bytes": "retention_bytes",
        "log.message.timestamp.type": "message_timestamp_type",
        "log.message.timestamp.after.max.ms": "message_timestamp_after_max_ms",
        "socket.request.max.bytes": "frame_bytes_max",
        "max.connections": "connections_max",
        "fetch.max.bytes": "fetch_bytes_max",
    }
)
"""Kafka names that differ from kprod's in more than the dots."""
_FLAGS = {"true": True, "false": False}
# Settings that have their own command line options.
_OPTIONS = {
    "host": "--host",
    "port": "--port",
    "unsafe": "--unsafe",
    "advertised_host": "--advertise",
    "advertised_port": "--advertise",
}


def setting_names() -> list[str]:
    """Return all setting names, kprod's before Kafka's."""
    own = [it.name for it in dataclasses.fields(EmbeddedConfig) if it.name not in _OPTIONS]
    return [*own, *_KAFKA_NAMES]


def read_settings_of_broker(typed: Mapping[str, str]) -> dict[str, int | str]:
    """Parse settings by name and type.

    Args:
        typed: Texts by setting name, kprod's (`default_partitions`) or Kafka's (`num.partitions`).

    Returns:
        Arguments for `EmbeddedConfig`, which checks their bounds.

    Raises:
        ConfigError: A name is unknown, a value has the wrong type, or the setting has its own
            option.
    """
    defaults = {it.name: it.default for it in dataclasses.fields(EmbeddedConfig)}
    settings: dict[str, int | str] = {}
    for written, text in typed.items():
        name = _KAFKA_NAMES.get(written, written.replace(".", "_"))
        if name in _OPTIONS:
            raise ConfigError(f"{written} has an option of its own: {_OPTIONS[name]}")
        if name not in defaults:
            near = difflib.get_close_matches(written, setting_names(), n=1, cutoff=0.5)
            advice = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"unknown setting {shown(written)} of the broker{advice}")
        settings[name] = _converted(written, text, defaults[name])
    return settings


def _converted(written: str, text: str, default: object) -> int | str:
    if isinstance(default, bool):
        if text.lower() not in _FLAGS:
            raise ConfigError(f"{written}={shown(text)} is neither true nor false")
        return _FLAGS[text.lower()]
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError:
            raise ConfigError(f"{written}={shown(text)} is not a whole number") from None
    return text
