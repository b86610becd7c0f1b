"""The report of the demonstration: figures that follow from what it is given."""

import pytest

from kprod.cli.comparison import Comparison
from kprod.cli.summary import Sending, percentile, summary_lines
from kprod.model import RecordMetadata
from kprod.record.blocks import ConsumerRecord


@pytest.mark.parametrize(
    ("samples", "percent", "expected"),
    [
        ([], 50, None),
        ([7], 50, 7),
        ([7], 99, 7),
        (list(range(1, 101)), 50, 50),
        (list(range(100, 0, -1)), 99, 99),
        ([1, 2, 3], 50, 2),
        ([1, 2, 3, 4], 50, 2),
        ([1, 2, 3], 100, 3),
    ],
)
def test_percentile_is_the_nearest_rank(
    samples: list[int], percent: int, expected: int | None
) -> None:
    """The smallest sample that this percentage does not exceed; none without samples."""
    assert percentile(samples, percent) == expected


def _whole() -> Comparison:
    comparison = Comparison([(b"UA", b"value")])
    comparison.acknowledge(0, RecordMetadata("flights", 3, 0, 0, 2, 5))
    comparison.compare(ConsumerRecord("flights", 3, 0, key=b"UA", value=b"value"))
    return comparison


def test_the_report_ends_with_the_verification() -> None:
    """Rate, batches, latency and partitions, then the line that matters."""
    sending = Sending(
        record_count=1,
        batch_count=1,
        bytes_count=7,
        elapsed_ns=500_000_000,
        latencies_ns=[2_000_000, 9_000_000],
    )
    lines = summary_lines(sending, _whole(), topic="flights")
    facts = dict(line.rsplit("  ", 1) for line in lines[:-1])
    figures = {name.strip(): value for name, value in facts.items()}
    assert figures["records/s"] == "2"
    assert figures["latency p50"] == "2.0 ms"
    assert figures["latency p99"] == "9.0 ms"
    assert figures["partition 3"] == "1"
    assert lines[-1] == "verified: 1 of 1"


def test_the_report_names_the_fault() -> None:
    """Failures and differences are counted; nothing sent is no division by nothing."""
    comparison = Comparison([(b"UA", b"value")])
    comparison.acknowledge(0, RecordMetadata("flights", 0, 0, 0, 2, 5))
    sending = Sending(
        record_count=2,
        batch_count=0,
        bytes_count=0,
        elapsed_ns=0,
        latencies_ns=[],
        failures=["DeliveryTimeout: late"],
        failure_count=1,
    )
    text = "\n".join(summary_lines(sending, comparison, topic="t"))
    assert "acknowledged and not found: 1" in text
    assert "DeliveryTimeout: late" in text
    assert "unknown" in text
    assert text.endswith("verified: 0 of 2")
