"""Lists the settings of other clients, as reported by the clients themselves.

librdkafka prints its table of properties to a C stream; the other two have theirs in Python.

Thread-safety: functions of the installed packages.
Source: rd_kafka_conf_properties_show (librdkafka 2.16); open_memstream(3).
"""

import ctypes
import inspect
from collections.abc import Mapping
from pathlib import Path

import aiokafka
import confluent_kafka
import kafka
import pytest

_COLUMNS = ("name", "side", "range", "default")
_PRODUCER_SIDES = {"P", "*"}
_CONSUMER_SIDES = {"C", "*"}
_OF_CONFLUENT_KAFKA = {"logger", "on_delivery", "oauth_cb", "error_cb", "stats_cb", "throttle_cb"}
"""Taken by the Python package itself, before librdkafka sees the rest."""


def librdkafka_settings() -> Mapping[str, str]:
    """Return the default of each setting that counts for a producer, as text."""
    found: dict[str, str] = dict.fromkeys(sorted(_OF_CONFLUENT_KAFKA), "")
    for line in _properties_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        row = dict(zip(_COLUMNS, cells, strict=False))
        if row.get("side") in _PRODUCER_SIDES and len(cells) > len(_COLUMNS):
            found.setdefault(row["name"], row["default"])
    return found


def consumer_settings() -> Mapping[str, Mapping[str, str]]:
    """Return the default of each setting of each client's consumer, but of Java's."""
    librdkafka: dict[str, str] = {}
    for line in _properties_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        row = dict(zip(_COLUMNS, cells, strict=False))
        if row.get("side") in _CONSUMER_SIDES and len(cells) > len(_COLUMNS):
            librdkafka.setdefault(row["name"], row["default"])
    parameters = inspect.signature(aiokafka.AIOKafkaConsumer).parameters
    kafka_python = kafka.KafkaConsumer.DEFAULT_CONFIG
    return {
        "confluent-kafka": librdkafka,
        "kafka-python": {name: repr(value) for name, value in kafka_python.items()},
        "aiokafka": {name: repr(it.default) for name, it in parameters.items() if name != "topics"},
    }


def kafka_python_settings() -> Mapping[str, str]:
    """Return the default of each setting, as Python writes it."""
    return {name: repr(value) for name, value in kafka.KafkaProducer.DEFAULT_CONFIG.items()}


def aiokafka_settings() -> Mapping[str, str]:
    """Return the default of each setting, as Python writes it."""
    parameters = inspect.signature(aiokafka.AIOKafkaProducer).parameters
    return {name: repr(parameter.default) for name, parameter in parameters.items()}


def _properties_text() -> str:
    package = Path(confluent_kafka.__file__).parent
    bundled = sorted((package.parent / "confluent_kafka.libs").glob("librdkafka*"))
    if not bundled:
        pytest.skip("confluent-kafka was installed without a library of its own to ask")
    library, system = ctypes.CDLL(str(bundled[0])), ctypes.CDLL(None)
    system.open_memstream.restype = ctypes.c_void_p
    text, size = ctypes.c_char_p(), ctypes.c_size_t()
    stream = ctypes.c_void_p(system.open_memstream(ctypes.byref(text), ctypes.byref(size)))
    library.rd_kafka_conf_properties_show(stream)
    system.fclose(stream)
    shown = (text.value or b"").decode()
    system.free(text)
    return shown
