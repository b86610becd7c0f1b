"""The short form of `make chaos`: brokers die under load, every promise about a record holds."""

import pytest

from tests.chaos.chaos import IMPATIENCE, Chaos, ChaosPlan
from tests.plugins.kafka_nodes import KafkaNodes


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_acknowledged_record_is_in_the_log_once_and_in_order(kafka_trio: KafkaNodes) -> None:
    """Three brokers, each killed under load; nothing is lost, doubled, reordered or unresolved."""
    plan = ChaosPlan(duration_s=30, kill_every_s=2, rates=(3_000, 6_000), down_s=(0.5, 2.0))
    report = Chaos(kafka_trio, plan).run()
    assert report.verdict.is_clean, report.text()
    assert report.verdict.acknowledged == report.verdict.sent > 30_000, report.text()
    assert sum(count > 0 for count in report.in_flight_at_kill) >= 2, report.text()
    assert report.undelivered == 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_failure_says_truly_whether_its_record_may_be_in_the_log(kafka_trio: KafkaNodes) -> None:
    """Outages outlast the delivery timeout, by brokers killed and frozen: sends fail, both ways."""
    plan = ChaosPlan(
        duration_s=15,
        kill_every_s=1,
        rates=(3_000, 6_000),
        down_s=(3.5, 4.0),
        freezes=True,
        topic="impatient",
        settings=IMPATIENCE,
    )
    report = Chaos(kafka_trio, plan).run()
    assert report.verdict.is_clean, report.text()
    assert report.verdict.not_persisted > 0, report.text()
    assert report.verdict.possibly_persisted > 0, report.text()
    assert report.verdict.acknowledged > 10_000, report.text()
