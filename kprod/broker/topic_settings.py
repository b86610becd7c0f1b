"""The settings that Kafka has for a topic: types, defaults, bounds, and which have an effect here.

A setting without effect is checked as Kafka checks it, accepted and told again, so that scripts
written for Kafka run; the broker warns of it once, and the page of the embedded broker lists them.

Thread-safety: constants, and functions of their arguments.
Source: Kafka LogConfig (4.3.1), whose responses to DescribeConfigs these are.
"""

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from kprod.errors import ConfigError
from kprod.guarded_log import guarded_logger

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7
"""Kinds of values, as DescribeConfigs numbers them."""

INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"
"""Kafka's own for tests: segments smaller than `segment.bytes` allows. It is never described."""

_INT_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DIGITS_MAX = 100  # a longer integer is out of bounds anyway, and slow to parse

_logger = guarded_logger("kprod.broker")
Value = int | float | bool | str


class TopicSetting(NamedTuple):
    """One setting.

    Attributes:
        kind: One of the numbers above.
        default: Kafka's, as text.
        lowest: Least value of a number.
        highest: Greatest value of a number.
        choices: Values of a text, or of each element of a list; none stands for any.
        broker_name: The broker's setting that has the default; empty if there is none.
        has_effect: Whether it changes anything here.
    """

    kind: int
    default: str
    lowest: float = -_LONG_MAX - 1
    highest: float = _LONG_MAX
    choices: tuple[str, ...] = ()
    broker_name: str = ""
    has_effect: bool = True


def _int(default: int, lowest: int, broker_name: str = "", *, effect: bool = True) -> TopicSetting:
    return TopicSetting(INT, str(default), lowest, _INT_MAX, (), broker_name, effect)


def _long(default: int, lowest: int, broker_name: str = "", *, effect: bool = True) -> TopicSetting:
    return TopicSetting(LONG, str(default), lowest, _LONG_MAX, (), broker_name, effect)


def _idle(kind: int, default: str, *choices: str, broker_name: str = "") -> TopicSetting:
    return TopicSetting(kind, default, choices=choices, broker_name=broker_name, has_effect=False)


_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

TOPIC_SETTINGS: Mapping[str, TopicSetting] = {
    "cleanup.policy": TopicSetting(
        LIST, "delete", choices=("compact", "delete"), broker_name="log.cleanup.policy"
    ),
    "compression.gzip.level": _int(-1, -1, "compression.gzip.level", effect=False)._replace(
        highest=9
    ),
    "compression.lz4.level": _int(9, 1, "compression.lz4.level", effect=False)._replace(highest=17),
    "compression.type": _idle(STRING, "producer", *_CODECS, broker_name="compression.type"),
    "compression.zstd.level": _int(3, -131_072, "compression.zstd.level", effect=False)._replace(
        highest=22
    ),
    "delete.retention.ms": _long(86_400_000, 0, "log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": _long(60_000, 0, "log.segment.delete.delay.ms"),
    "flush.messages": _long(_LONG_MAX, 1, "log.flush.interval.messages"),
    "flush.ms": _long(_LONG_MAX, 0, "log.flush.interval.ms"),
    "follower.replication.throttled.replicas": _idle(LIST, ""),
    "index.interval.bytes": _int(4_096, 0, "log.index.interval.bytes"),
    "leader.replication.throttled.replicas": _idle(LIST, ""),
    "local.retention.bytes": _long(-2, -2, "log.local.retention.bytes", effect=False),
    "local.retention.ms": _long(-2, -2, "log.local.retention.ms", effect=False),
    "max.compaction.lag.ms": _long(_LONG_MAX, 1, "log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": _int(1_048_588, 0, "message.max.bytes"),
    "message.timestamp.after.max.ms": _long(3_600_000, 0, "log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": _long(_LONG_MAX, 0, "log.message.timestamp.before.max.ms"),
    "message.timestamp.type": TopicSetting(
        STRING,
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        broker_name="log.message.timestamp.type",
    ),
    "min.cleanable.dirty.ratio": TopicSetting(
        DOUBLE, "0.5", 0, 1, broker_name="log.cleaner.min.cleanable.ratio"
    ),
    "min.compaction.lag.ms": _long(0, 0, "log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": _int(1, 1, "min.insync.replicas"),
    "preallocate": _idle(BOOLEAN, "false", broker_name="log.preallocate"),
    "remote.log.copy.disable": _idle(BOOLEAN, "false"),
    "remote.log.delete.on.disable": _idle(BOOLEAN, "false"),
    "remote.storage.enable": _idle(BOOLEAN, "false"),
    "retention.bytes": _long(-1, -_LONG_MAX - 1, "log.retention.bytes"),
    "retention.ms": _long(604_800_000, -1, "log.retention.ms"),
    "segment.bytes": _int(1 << 30, 1 << 20, "log.segment.bytes"),
    "segment.index.bytes": _int(10 << 20, 4, "log.index.size.max.bytes"),
    "segment.jitter.ms": _long(0, 0, "log.roll.jitter.ms"),
    "segment.ms": _long(604_800_000, 1, "log.roll.ms"),
    "unclean.leader.election.enable": _idle(
        BOOLEAN, "false", broker_name="unclean.leader.election.enable"
    ),
}


def settings_without_effect() -> list[str]:
    """The settings that are accepted and change nothing, sorted."""
    return sorted(name for name, setting in TOPIC_SETTINGS.items() if not setting.has_effect)


class IdleSettings:
    """Warns of settings that change nothing here, of each once."""

    __slots__ = ("_idle_here", "_known")

    def __init__(self, idle_here: Collection[str] = ()) -> None:
        """Make a set without a warned setting.

        Args:
            idle_here: Settings that this cluster's own settings leave without effect.
        """
        self._idle_here = idle_here
        self._known: set[str] = set()

    def warn_of(self, overrides: Mapping[str, str | None]) -> None:
        """Log a warning for each setting without effect that was not given before.

        Args:
            overrides: Text by Kafka's dotted name; a default asks for nothing, and is not a reason.
        """
        for name, text in overrides.items():
            setting = TOPIC_SETTINGS.get(name)
            if setting is None or text in {None, setting.default}:
                continue
            if setting.has_effect and name not in self._idle_here:
                continue
            if name not in self._known:
                self._known.add(name)
                _logger.warning("the setting %s of topics has no effect in this broker", name)


def parse_setting(name: str, text: str) -> Value:
    """Read a setting's value as Kafka does.

    Args:
        name: Kafka's dotted name.
        text: Text that the client or the operator wrote.

    Returns:
        The value. A list is one str: its elements, each of them once, joined by commas.

    Raises:
        ConfigError: There is no such setting, or the value cannot be read or is out of bounds.
    """
    setting = TOPIC_SETTINGS.get(name)
    if name == INTERNAL_SEGMENT_BYTES:
        setting = _int(0, 1)
    if setting is None:
        raise ConfigError(f"there is no setting {name!r} of a topic")
    text = text.strip()
    if setting.kind in {INT, LONG, DOUBLE}:
        return _number(name, setting, text)
    if setting.kind == BOOLEAN:
        if text.lower() not in {"true", "false"}:
            raise ConfigError(f"{name}={text!r} is neither true nor false")
        return text.lower() == "true"
    elements = [text]
    if setting.kind == LIST:
        elements = [it.strip() for it in text.split(",")] if text else []
    if setting.choices and not set(elements) <= set(setting.choices):
        raise ConfigError(f"{name}={text!r} is not of {', '.join(setting.choices)}")
    return ",".join(dict.fromkeys(elements))  # each of them once


def value_text(value: Value) -> str:
    """Write a value as DescribeConfigs tells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(name: str, setting: TopicSetting, text: str) -> int | float:
    pattern = _DECIMAL if setting.kind == DOUBLE else _INTEGER
    if not pattern.fullmatch(text):
        kind = "a number" if setting.kind == DOUBLE else "an integer"
        raise ConfigError(f"{name}={text[:100]!r} is not {kind}")
    value = float(text) if setting.kind == DOUBLE else int(text[:_DIGITS_MAX])
    if not setting.lowest <= value <= setting.highest:
        raise ConfigError(
            f"{name}={text[:100]} is not between {setting.lowest} and {setting.highest}"
        )
    return value
