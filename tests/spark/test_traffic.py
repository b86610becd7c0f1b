"""A task's share of what its producer counts."""

from kprod import Producer
from kprod.broker import EmbeddedCluster
from kprod.spark.traffic import TrafficMeter


def test_a_task_is_charged_for_its_own_records() -> None:
    """Traffic of the producer for earlier tasks is not counted."""
    with (
        EmbeddedCluster(brokers=1, topics={"a": 1}) as cluster,
        Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": "0"}) as producer,
    ):
        producer.send("a", b"x" * 5_000).result(10)
        meter = TrafficMeter(producer)
        assert meter.measured().sent_bytes == 0
        producer.send("a", b"x" * 1_000).result(10)
        traffic = meter.measured()
    assert 1_000 < traffic.sent_bytes < 2_000
    assert traffic.sent_batch_count == 1
    assert traffic.retried_count == 0
    assert traffic.duration_ms >= 0
