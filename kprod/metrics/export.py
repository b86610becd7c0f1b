"""Metrics in the form that other systems use: families with labels, instead of nested dictionaries.

Thread-safety: any thread; nothing is kept.
Source: the data models of Prometheus and OpenTelemetry, for what a family is.
"""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from kprod.metrics.recorder import Metrics
from kprod.metrics.table import (
    CALLER_ROWS,
    GAUGES,
    NODE_ROWS,
    SENDER_ROWS,
    TOPIC_ROWS,
    Group,
    Kind,
)


class Measured(Protocol):
    """A producer, as far as it is measured."""

    @property
    def client_id(self) -> str:
        """The name under which its values are shown."""

    def metrics(self) -> Metrics:
        """Values by group and name."""


class Family(NamedTuple):
    """All values of one name in one kind of group.

    Attributes:
        group: The kind of group.
        name: Kafka's.
        kind: Type of the metric, such as a counter.
        unit: The unit as text.
        meaning: One sentence.
    """

    group: Group
    name: str
    kind: Kind
    unit: str
    meaning: str


class Sample(NamedTuple):
    """One value.

    Attributes:
        labels: `client_id`, and `topic` or `node_id` if it is of one.
        value: Never NaN.
    """

    labels: Mapping[str, str]
    value: float


FAMILIES: tuple[Family, ...] = (
    *(Family(Group.PRODUCER, g.name, Kind.VALUE, g.unit, g.meaning) for g in GAUGES),
    *(Family(Group.PRODUCER, *row[:4]) for row in SENDER_ROWS + CALLER_ROWS),
    *(Family(Group.TOPIC, *row[:4]) for row in TOPIC_ROWS),
    *(Family(Group.NODE, *row[:4]) for row in NODE_ROWS),
)
"""Every family there is, in the order of the documentation."""


def samples(family: Family, client_id: str, metrics: Metrics) -> Iterator[Sample]:
    """Find a family's values.

    Args:
        family: A member of `FAMILIES`.
        client_id: The producer's client id.
        metrics: The result of `Producer.metrics`.

    Yields:
        One sample for the producer, or for each topic or node; none for a value that is NaN.
    """
    for group, values in metrics.items():
        kind, _, member = group.partition(".")
        value = values.get(family.name, math.nan)
        if kind != family.group.value or math.isnan(value):
            continue
        labels = {"client_id": client_id}
        if family.group is Group.TOPIC:
            labels["topic"] = member
        elif family.group is Group.NODE:
            labels["node_id"] = member.removeprefix("node-")
        yield Sample(labels, value)
