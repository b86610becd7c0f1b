"""Parses the options that a user passed by `.option(…)`, before Spark starts a task.

Two kinds of options share one namespace, as in Spark's own Kafka sink: the data source's own
(`OWN_OPTIONS`), and every setting of the producer, with or without `kafka.` before it. A name that
is neither is an error that names the nearest.

Thread-safety: immutable values; functions of their arguments.
Source: Spark 4.1, Kafka integration guide, for names that a migrating job has already.
"""

import difflib
import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from kprod.config import ProducerConfig
from kprod.config.foreign import advice_for
from kprod.config.quoting import shown
from kprod.config.security_config import is_security_name, security_advice_for
from kprod.errors import ConfigError
from kprod.spark.bad_row_limits import BadRowLimits
from kprod.spark.references import (
    ANY_TEXT,
    OBJECTS,
    is_reference,
    setting_name,
    setting_table,
    takes,
)
from kprod.spark.token_providers import client_settings
from kprod.topic_name import name_fault

__all__ = ["COLUMN_ROLES", "RecordErrorMode", "SinkOptions", "ValueFormat", "read_options"]

KAFKA_PREFIX = "kafka."
COLUMN_ROLES = ("value", "key", "headers", "topic", "partition", "timestamp")

OWN_OPTIONS: tuple[str, ...] = (
    "topic",
    "value.format",
    "on_record_error",
    "max_bad_rows",
    "max_bad_ratio",
    "flush.timeout.ms",
    "check.cluster",
    "report.path",
    "delivery",
    "write.id",
    "ledger.topic",
    *(f"{role}.column" for role in COLUMN_ROLES),
)

# Spark writes these into the options itself, or a job written for Spark's sink has them; the writer
# has nothing to do for them.
_OF_SPARK = frozenset({"checkpointlocation", "queryname", "includeheaders"})

CLIENT_ID = "kprod-spark"
LEDGER_TOPIC = "__kprod_spark_ledger"
WRITE_ID_CHARACTERS_MAX = 200
_TIMEOUT_MS_MAX = 2**31 - 1
_COUNT_DIGITS_MAX = 18  # below 2**63
_DLQ = "dlq:"

# Spark hides the values of options by their names, and these are not among the names it knows.
_ONLY_BY_REFERENCE = frozenset(
    {"ssl_keydata", "sasl_jaas_config", "sasl_oauthbearer_client_secret"}
)
_JAAS = "sasl_jaas_config"
# A host of this machine, as the executors may find: they check a login in the clear.
_UNRESOLVED_ADDRESS = "unresolved.localhost:1"


class ValueFormat(enum.Enum):
    """Format of a record's value."""

    RAW = "raw"
    """The value column, as it is."""
    JSON = "json"
    """An object of all columns that have no role of their own."""


class RecordErrorMode(enum.Enum):
    """Action for a row that can never be a record."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dlq"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Every option of one write, checked.

    Attributes:
        settings: Settings of the producer, as texts; references are not resolved here. Never shown.
        topic: Topic of all rows; None takes the topic column.
        columns: Name of each role's column, as set by an option; "" for a role without a column.
        value_format: Format of a record's value.
        on_record_error: Action for a row that can never be a record.
        dead_letter_topic: Topic of bad rows; None in the other modes.
        bad_row_limits: Maximum number of such rows that may be left out.
        flush_timeout_ms: Maximum wait of a task for its last records; None waits up to
            `delivery_timeout_ms`.
        checks_cluster: Whether brokers and topics are checked when a query starts.
        report_path: File on the driver's machine that gets a line for each committed write.
        write_id: Names a batch write, so that it is not written twice; None for none.
        ledger_topic: Topic with the ids of committed writes.

    Thread-safety: immutable.
    """

    settings: Mapping[str, str] = field(repr=False)
    topic: str | None
    columns: Mapping[str, str]
    value_format: ValueFormat
    on_record_error: RecordErrorMode
    dead_letter_topic: str | None
    bad_row_limits: BadRowLimits
    flush_timeout_ms: int | None
    checks_cluster: bool
    report_path: str | None
    write_id: str | None
    ledger_topic: str

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that options name; a topic column may name others."""
        return tuple(name for name in (self.topic, self.dead_letter_topic) if name is not None)


def read_options(options: Mapping[str, str]) -> SinkOptions:
    """Check all options of a write.

    Args:
        options: The options as Spark passes them: names in lower case, values as strings.

    Returns:
        The options, each parsed into its attribute.

    Raises:
        ConfigError: A name is unknown, a value malformed, or something required is missing.
    """
    own: dict[str, str] = {}
    settings: dict[str, str] = {}
    for written, value in options.items():
        name = written.lower()
        bare = name.removeprefix(KAFKA_PREFIX)
        if name in OWN_OPTIONS:
            own[name] = value
        elif bare in setting_table():
            _put_setting(settings, bare, value)
        elif name not in _OF_SPARK:
            _reject_name(written, bare)
    if "client.id" not in settings and "client_id" not in settings:
        settings["client.id"] = CLIENT_ID
    _check_settings(settings)
    _choice("delivery", own.get("delivery"), ("at_least_once",))
    mode, dead_letter_topic = _record_error_rule(own.get("on_record_error", "fail"))
    return SinkOptions(
        settings=settings,
        topic=_topic("topic", own["topic"]) if "topic" in own else None,
        columns={role: own[f"{role}.column"] for role in COLUMN_ROLES if f"{role}.column" in own},
        value_format=ValueFormat(
            _choice("value.format", own.get("value.format"), [f.value for f in ValueFormat])
        ),
        on_record_error=mode,
        dead_letter_topic=dead_letter_topic,
        bad_row_limits=_bad_row_limits(own, mode),
        flush_timeout_ms=_milliseconds("flush.timeout.ms", own.get("flush.timeout.ms")),
        checks_cluster=_choice("check.cluster", own.get("check.cluster"), ("true", "false"))
        == "true",
        report_path=_report_path(own.get("report.path")),
        write_id=_write_id(own),
        ledger_topic=_topic("ledger.topic", own.get("ledger.topic", LEDGER_TOPIC)),
    )


_NO_PROVIDER = (
    "an option cannot be an object; set sasl.oauth.provider=msk or azure,"
    " sasl.oauthbearer.token.endpoint.url or sasl_oauthbearer_token_file"
)
_INSTEAD_OF_OBJECTS = {
    "address_filter": "an option cannot be an object; remove it",
    "ssl_context": "an option cannot be an object; set ssl_cafile, ssl_certfile and the like",
    "sasl_oauth_token_provider": _NO_PROVIDER,
    "oauth_cb": _NO_PROVIDER,
}


def _put_setting(settings: dict[str, str], name: str, value: str) -> None:
    if settings.get(name, value) != value:
        raise ConfigError(
            f"{name} and {KAFKA_PREFIX}{name} are the same option and were given different values;"
            " give one of them"
        )
    if setting_name(name) in _ONLY_BY_REFERENCE and not is_reference(value):
        raise ConfigError(
            f"{name} must be env:NAME or file:/path, which executors read: Spark would show its"
            " value in plans, logs and events"
        )
    settings[name] = value


def _reject_name(written: str, bare: str) -> NoReturn:
    text = f"unknown option {shown(written)}"
    name = bare.replace(".", "_")
    if name in _INSTEAD_OF_OBJECTS:
        raise ConfigError(f"{text}: {_INSTEAD_OF_OBJECTS[name]}")
    if name in OBJECTS:
        raise ConfigError(f"{text}: columns are sent as the bytes they are; remove it")
    if bare == "path":
        raise ConfigError(f"{text}: a topic is not a path; use .option('topic', …).save()")
    if advice := (security_advice_for if is_security_name(bare) else advice_for)(bare):
        raise ConfigError(f"{text}: {advice}")
    names = [*OWN_OPTIONS, *(name for name in setting_table() if "." in name)]
    nearest = difflib.get_close_matches(bare, names, n=1, cutoff=0.5)
    if nearest:
        text += f"; did you mean {nearest[0]}?"
    raise ConfigError(text)


def _check_settings(settings: Mapping[str, str]) -> None:
    """Check the producer settings that are known on this machine."""
    if not any(name in settings for name in ("bootstrap.servers", "bootstrap_servers")):
        raise ConfigError("bootstrap.servers is missing: .option('bootstrap.servers', 'host:9092')")
    ProducerConfig.parse(client_settings(_known_here(settings)))


def _known_here(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that can be checked before references are resolved, as executors do."""
    known: dict[str, str] = {}
    is_secured_elsewhere = False
    for name, value in settings.items():
        if not is_reference(value):
            known[name] = value
        elif name in {"bootstrap.servers", "bootstrap_servers"}:
            known[name] = _UNRESOLVED_ADDRESS
        elif setting_name(name) != _JAAS and takes(setting_table()[name], ANY_TEXT):
            known[name] = ANY_TEXT
        else:
            is_secured_elsewhere = is_secured_elsewhere or is_security_name(name)
    if is_secured_elsewhere:  # only all of them together can be consistent
        return {name: value for name, value in known.items() if not is_security_name(name)}
    return known


def _choice(name: str, given: str | None, choices: Iterable[str]) -> str:
    known = list(choices)
    if given is None:
        return known[0]
    if given.lower() not in known:
        hint = ""
        if (name, given.lower()) == ("delivery", "exactly_once"):
            hint = ": this version of kprod has no transactions, and retried tasks may repeat rows"
        raise ConfigError(f"{name} must be {' or '.join(known)}, not {shown(given)}{hint}")
    return given.lower()


def _record_error_rule(text: str) -> tuple[RecordErrorMode, str | None]:
    if text.lower().startswith(_DLQ):
        return RecordErrorMode.DEAD_LETTER, _topic("on_record_error", text[len(_DLQ) :])
    if text.lower() in {"fail", "skip"}:
        return RecordErrorMode(text.lower()), None
    raise ConfigError(f"on_record_error must be fail, skip or dlq:<topic>, not {shown(text)}")


def _bad_row_limits(own: Mapping[str, str], mode: RecordErrorMode) -> BadRowLimits:
    count, ratio = own.get("max_bad_rows"), own.get("max_bad_ratio")
    if mode is RecordErrorMode.FAIL and (count is not None or ratio is not None):
        raise ConfigError(
            "max_bad_rows and max_bad_ratio limit the rows that are left out, and"
            " on_record_error=fail leaves out none; set it to skip or dlq:<topic>"
        )
    return BadRowLimits(max_bad_rows=_count(count), max_bad_ratio=_ratio(ratio))


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _COUNT_DIGITS_MAX):
        raise ConfigError(f"max_bad_rows must be a whole number from 0, not {shown(text)}")
    return int(digits)


def _ratio(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0.0 <= ratio <= 1.0:
        raise ConfigError(f"max_bad_ratio must be a number from 0 to 1, not {shown(text)}")
    return ratio


def _topic(option: str, name: str) -> str:
    fault = name_fault(name)
    if fault is not None:
        raise ConfigError(f"{option}: {fault}")
    return name


def _milliseconds(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= len(str(_TIMEOUT_MS_MAX))):
        raise ConfigError(f"{name} must be a whole number of milliseconds, not {shown(text)}")
    value = int(digits)
    if not 1 <= value <= _TIMEOUT_MS_MAX:
        raise ConfigError(f"{name} must be from 1 to {_TIMEOUT_MS_MAX} ms, not {value}")
    return value


def _write_id(own: Mapping[str, str]) -> str | None:
    text = own.get("write.id")
    if text is None:
        if "ledger.topic" in own:
            raise ConfigError("ledger.topic has the ids of writes, and write.id names none")
        return None
    if not 1 <= len(text) <= WRITE_ID_CHARACTERS_MAX or not text.isprintable():
        raise ConfigError(
            f"write.id must have 1 to {WRITE_ID_CHARACTERS_MAX} printable characters, not"
            f" {len(text)}: {shown(text)}"
        )
    return text


def _report_path(text: str | None) -> str | None:
    if text is not None and not Path(text).absolute().parent.is_dir():
        raise ConfigError(
            f"report.path: there is no directory {shown(str(Path(text).absolute().parent))} where"
            " Spark's driver runs"
        )
    return text
