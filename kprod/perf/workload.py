"""The workload of one process, which is passed to it as JSON.

Thread-safety: immutable values.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Self

CLIENTS = ("kprod", "confluent-kafka", "aiokafka", "kafka-python")
SAMPLES_MAX = 500_000
SAMPLES_MIN = 10_000
SPARSE = 1_000
"""At full speed only every n-th latency is measured: measuring takes more time than sending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadPlan:
    """The source of values; exactly one of the three is set.

    Attributes:
        record_size: Bytes of values that are made up of random capitals.
        file: Holds the values.
        is_monotonic: Values are the records' numbers, as text.
        delimiter: Between the values of the file; each character is the byte of its number.
        is_in_order: The file is replayed from its begin, again and again, and not drawn from.
        seed: Seed of all random choices.
    """

    record_size: int | None = None
    file: str | None = None
    is_monotonic: bool = False
    delimiter: str = "\n"
    is_in_order: bool = False
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The workload of one process.

    Attributes:
        client: One of `CLIENTS`.
        topic: The topic to send to.
        settings: The client's, among them the addresses, by dotted names.
        payloads: Source of the values.
        record_count: Number of records, at least 1.
        rate: Records per second, evenly spaced; None sends as fast as the client takes them.
        warmup_count: Number of first records that do not count as steady state.
        sample_every: The latency of every n-th record is measured, with this n.
        report_ms: Interval between two reports of the process.
        latencies_file: File that gets each measured latency in nanoseconds; None for none.
    """

    client: str
    topic: str
    settings: Mapping[str, object]
    payloads: PayloadPlan = field(default_factory=PayloadPlan)
    record_count: int = 1
    rate: float | None = None
    warmup_count: int = 0
    sample_every: int = 1
    report_ms: int = 250
    latencies_file: str | None = None

    def to_json(self) -> str:
        """Return the workload as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote.

        Args:
            text: One line.

        Returns:
            The workload.
        """
        fields = json.loads(text)
        return cls(**{**fields, "payloads": PayloadPlan(**fields["payloads"])})


def sample_every(record_count: int, rate: float | None) -> int:
    """Choose how many latencies are measured.

    Args:
        record_count: Number of records of one process.
        rate: None at full speed.

    Returns:
        1 where a rate is given. At full speed one in `SPARSE`, more of a short run for
        `SAMPLES_MIN`, fewer of a long one for `SAMPLES_MAX`, as Kafka's tool has it.
    """
    if rate is not None:
        return 1
    sparse = min(SPARSE, record_count // SAMPLES_MIN)
    return max(1, sparse, -(-record_count // SAMPLES_MAX))
