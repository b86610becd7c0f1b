"""Rules between settings.

One principle: the application's settings are never changed silently. Two settings of the
application that contradict each other are an error; a default that contradicts a setting is
changed, and the log says so.

Thread-safety: pure functions.
Source: Kafka's ProducerConfig.postProcessAndValidateIdempotenceConfigs and
KafkaProducer.configureDeliveryTimeout (clients 4.3.1); KAFKA-14303 for batch.size=0.
"""

from collections.abc import Mapping
from typing import Any

from kprod.config.kinds import INT32_MAX
from kprod.errors import ConfigError
from kprod.guarded_log import guarded_logger
from kprod.model import Acks

_logger = guarded_logger(__name__)

# (first wait, longest wait): they double from the one to the other.
_BACKOFFS = (
    ("retry_backoff_ms", "retry_backoff_max_ms"),
    ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
    ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
)


_HEARTBEATS_PER_SESSION = 3


def settle(given: Mapping[str, object], defaults: Mapping[str, object]) -> dict[str, Any]:
    """Complete the given settings with defaults, and make them consistent.

    Args:
        given: Checked values, by field name.
        defaults: The defaults, by field name.

    Returns:
        A value for every setting.

    Raises:
        ConfigError: A setting is missing, or two that were given contradict each other.
    """
    values = settle_client(given, defaults)
    _settle_batch_size(values, given)
    _settle_delivery_timeout(values, given)
    _settle_idempotence(values, given)
    _check_rack(values)
    return values


def settle_client(given: Mapping[str, object], defaults: Mapping[str, object]) -> dict[str, Any]:
    """Complete settings with defaults, by the rules that any client has.

    Args:
        given: Checked values, by field name.
        defaults: The defaults, by field name.

    Returns:
        A value for every setting.

    Raises:
        ConfigError: A setting is missing, or two that were given contradict each other.
    """
    if "bootstrap_servers" not in given:
        raise ConfigError("bootstrap_servers is missing: name at least one broker, as 'host:port'")
    values: dict[str, Any] = {**defaults, **given}
    for first, longest in _BACKOFFS:
        _settle_backoff(values, given, first, longest)
    return values


def settle_consumer(given: Mapping[str, object], defaults: Mapping[str, object]) -> dict[str, Any]:
    """Complete a consumer's settings with defaults, and make them consistent.

    Args:
        given: Checked values, by field name.
        defaults: The defaults, by field name.

    Returns:
        A value for every setting.

    Raises:
        ConfigError: A setting is missing, or two that were given contradict each other.
    """
    values = settle_client(given, defaults)
    _settle_fetch_wait(values, given)
    _settle_heartbeat(values, given)
    return values


def _settle_heartbeat(values: dict[str, Any], given: Mapping[str, object]) -> None:
    session_ms, interval_ms = values["session_timeout_ms"], values["heartbeat_interval_ms"]
    fitting_ms = max(1, session_ms // _HEARTBEATS_PER_SESSION)
    if interval_ms <= fitting_ms:
        return
    if "heartbeat_interval_ms" not in given:
        values["heartbeat_interval_ms"] = fitting_ms
    elif interval_ms >= session_ms:
        raise ConfigError(
            f"heartbeat_interval_ms ({interval_ms}) must be below session_timeout_ms"
            f" ({session_ms}), or the member is removed between two heartbeats; a third of it"
            " lets two be lost"
        )
    else:
        _logger.warning(
            "heartbeat_interval_ms (%d) is above a third of session_timeout_ms (%d): few lost"
            " heartbeats end the membership",
            interval_ms,
            session_ms,
        )


def _settle_fetch_wait(values: dict[str, Any], given: Mapping[str, object]) -> None:
    # A broker answers the requests of a connection in order: every request behind a fetch that
    # waits would time out, and with it the connection.
    wait_ms, timeout_ms = values["fetch_max_wait_ms"], values["request_timeout_ms"]
    if wait_ms < timeout_ms:
        return
    are_given = "fetch_max_wait_ms" in given and "request_timeout_ms" in given
    if are_given or wait_ms == INT32_MAX:
        raise ConfigError(
            f"fetch_max_wait_ms ({wait_ms}) must be below request_timeout_ms ({timeout_ms}): the"
            " broker answers nothing else on that connection while a fetch waits there, so every"
            " request would time out; lower the one or raise the other"
        )
    if "fetch_max_wait_ms" in given:
        name, fitting_ms = "request_timeout_ms", min(INT32_MAX, wait_ms + timeout_ms)
    else:
        name, fitting_ms = "fetch_max_wait_ms", timeout_ms // 2
    _logger.warning(
        "%s set to %d, not its default %d: fetch_max_wait_ms must be below request_timeout_ms",
        name,
        fitting_ms,
        values[name],
    )
    values[name] = fitting_ms


def _check_rack(values: Mapping[str, Any]) -> None:
    # .get: a client that does not produce has no such settings.
    if values.get("partitioner_rack_aware") and not values["client_rack"].strip():
        raise ConfigError(
            "partitioner_rack_aware=True needs client_rack: name the rack that this client is in,"
            " in the words of the brokers' broker.rack"
        )


def _settle_batch_size(values: dict[str, Any], given: Mapping[str, object]) -> None:
    if "batch_size" not in given:
        values["batch_size"] = min(values["batch_size"], values["max_request_size"])
    # With 0 no batch would ever count as begun, and the choice of partitions would never move on.
    values["batch_size"] = max(1, values["batch_size"])


def _settle_delivery_timeout(values: dict[str, Any], given: Mapping[str, object]) -> None:
    if "delivery_timeout_ms" in given:
        _shorten_attempts(values, given)
    linger_ms, request_timeout_ms = values["linger_ms"], values["request_timeout_ms"]
    least_ms = min(INT32_MAX, linger_ms + request_timeout_ms)
    if values["delivery_timeout_ms"] >= least_ms:
        return
    if "delivery_timeout_ms" in given:
        raise ConfigError(
            f"delivery_timeout_ms ({values['delivery_timeout_ms']}) must be at least linger_ms + "
            f"request_timeout_ms ({linger_ms} + {request_timeout_ms} = {least_ms}), or no request "
            "would be given its time; raise it or lower one of those"
        )
    _logger.warning(
        "delivery_timeout_ms raised from its default %d to %d = linger_ms (%d) + "
        "request_timeout_ms (%d); set it explicitly to choose another value",
        values["delivery_timeout_ms"],
        least_ms,
        linger_ms,
        request_timeout_ms,
    )
    values["delivery_timeout_ms"] = least_ms


def _shorten_attempts(values: dict[str, Any], given: Mapping[str, object]) -> None:
    """Lower the defaults of `request_timeout_ms`, then `linger_ms`, to fit the delivery timeout."""
    for name, other, least_ms in (
        ("request_timeout_ms", "linger_ms", 1),
        ("linger_ms", "request_timeout_ms", 0),
    ):
        fitting_ms = max(least_ms, values["delivery_timeout_ms"] - values[other])
        if name not in given and values[name] > fitting_ms:
            _logger.warning(
                "%s lowered from its default %d to %d, to fit delivery_timeout_ms (%d); set it"
                " explicitly to choose another value",
                name,
                values[name],
                fitting_ms,
                values["delivery_timeout_ms"],
            )
            values[name] = fitting_ms


def _settle_backoff(
    values: dict[str, Any], given: Mapping[str, object], first: str, longest: str
) -> None:
    first_ms, longest_ms = values[first], values[longest]
    if first_ms <= longest_ms:
        return
    if first in given and longest in given:
        raise ConfigError(
            f"{first} ({first_ms}) is above {longest} ({longest_ms}): the wait doubles from the "
            "one up to the other"
        )
    yielding, wanted_ms = (longest, first_ms) if first in given else (first, longest_ms)
    _logger.warning("%s set to %d, not its default %d", yielding, wanted_ms, values[yielding])
    values[yielding] = wanted_ms


def _settle_idempotence(values: dict[str, Any], given: Mapping[str, object]) -> None:
    if not values["enable_idempotence"]:
        return
    if values["acks"] is not Acks.ALL:
        obstacle = f"acks={values['acks'].value}"
        remedy = "acks='all'"
    elif values["retries"] == 0:
        obstacle = "retries=0"
        remedy = "retries of at least 1"
    else:
        return
    if given.get("enable_idempotence") is True:
        raise ConfigError(
            f"enable_idempotence=True contradicts {obstacle}: it needs {remedy}, because a batch "
            "must be acknowledged and retried to be known as written once"
        )
    _logger.info("idempotence is off because of %s: a retry may write a record twice", obstacle)
    values["enable_idempotence"] = False
