"""Metrics for OpenTelemetry, by observable instruments of a meter (`kprod[opentelemetry]`).

    observe(producer)                                  # the global meter provider
    observe(producer, meter_provider=provider)

Values are read when a reader collects; between collections nothing runs. A collection reads each
instrument once, so one reading serves until an instrument is read for the second time.

Thread-safety: any thread; readers of one provider may collect concurrently and share values.
Source: OpenTelemetry metrics API 1.x; its Kafka JMX conventions for prefixes and attributes.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from opentelemetry.metrics import (
    CallbackOptions,
    Meter,
    MeterProvider,
    Observation,
    get_meter_provider,
)

from kprod.metrics.export import FAMILIES, Family, Measured, samples
from kprod.metrics.table import Group, Kind

if TYPE_CHECKING:
    from kprod.metrics.recorder import Metrics

_PREFIXES = {
    Group.PRODUCER: "kafka.producer.",
    Group.TOPIC: "kafka.producer.topic.",
    Group.NODE: "kafka.producer.node.",
}
_UNITS = {"bytes": "By", "ms": "ms", "ns": "ns", "s": "s", "ratio": "1"}  # UCUM

Callback = Callable[[CallbackOptions], Iterable[Observation]]


def observe(*producers: Measured, meter_provider: MeterProvider | None = None) -> None:
    """Make a meter provider export the metrics of producers.

    Args:
        *producers: The producers, each with a different `client_id`; call it once for all producers
            of a process, since a meter accepts each instrument once.
        meter_provider: The meter provider; None for the global one.
    """
    meter = (meter_provider or get_meter_provider()).get_meter("kprod")
    reading = _Reading(producers)
    for family in FAMILIES:
        _instrument(meter, family, reading.callback(family))


class _Reading:
    """One reading of all producers, for a collection's instruments."""

    __slots__ = ("_metrics", "_producers", "_served")

    def __init__(self, producers: Iterable[Measured]) -> None:
        self._producers = tuple(producers)
        self._served: set[Family] = set(FAMILIES)  # all: the first to be read makes a reading
        self._metrics: list[tuple[str, Metrics]] = []

    def callback(self, family: Family) -> Callback:
        """Make what an instrument calls."""

        def observations(_: CallbackOptions) -> Iterator[Observation]:
            if family in self._served:
                self._metrics = [(one.client_id, one.metrics()) for one in self._producers]
                self._served = set()
            self._served.add(family)
            for client_id, metrics in self._metrics:
                for sample in samples(family, client_id, metrics):
                    labels = {key.replace("_", "-"): text for key, text in sample.labels.items()}
                    yield Observation(sample.value, labels)

        return observations


def _instrument(meter: Meter, family: Family, callback: Callback) -> None:
    make = meter.create_observable_gauge
    unit = _UNITS.get(family.unit, f"{{{family.unit}}}")
    if family.kind is Kind.TOTAL:
        make = meter.create_observable_counter  # type: ignore[assignment]
    elif family.kind is Kind.RATE and unit != "1":
        unit += "/s"
    make(_PREFIXES[family.group] + family.name, [callback], unit, family.meaning)
