"""The facts about one setting besides its default: a row of a `Table`.

Thread-safety: immutable.
"""

import enum
from typing import NamedTuple

from kprod.config.kinds import Kind


class Group(enum.Enum):
    """Chapters of the configuration page."""

    CLUSTER = "Cluster"
    READING = "Reading"
    FETCHING = "Fetching and memory"
    GROUPS = "Groups and commits"
    DELIVERY = "Delivery"
    BATCHING = "Batching and memory"
    COMPRESSION = "Compression"
    PARTITIONING = "Partitions and serializers"
    NETWORK = "Network"
    SECURITY = "Security"


class Setting(NamedTuple):
    """One row of the table.

    Attributes:
        kafka_name: Kafka's dotted name; None for a setting that Kafka lacks.
        kind: Type and range of the value.
        group: The chapter it is described in.
        text: Description of the setting in sentences.
        unit: `ms` or `bytes`; empty where there is none.
        also: Further names that are accepted: of settings that people paste from a vendor's page.
    """

    kafka_name: str | None
    kind: Kind
    group: Group
    text: str
    unit: str = ""
    also: tuple[str, ...] = ()

    def spellings(self, field_name: str) -> tuple[str, ...]:
        """Return every name an application may use, the field's own first."""
        names = [field_name]
        if self.kafka_name is not None:
            names += [self.kafka_name, self.kafka_name.replace(".", "_")]
        for name in self.also:
            names += [name, name.replace(".", "_")]
        return tuple(dict.fromkeys(names))
