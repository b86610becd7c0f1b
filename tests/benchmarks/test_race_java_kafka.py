"""Kafka's own tool sends what a race asks for, on Apache Kafka."""

from race_java import JavaLoad, race_java

import kprod
from tests.plugins.kafka_nodes import KafkaNodes

VALUES = [b'{"order": 1}', b'{"order": 22}']


def test_java_sends_the_values_of_its_load(kafka: KafkaNodes) -> None:
    """All that it counts are there, and each value comes."""
    topic = kafka.create_topic("race-java", partitions=1)
    figures = race_java(kafka.bootstrap_servers, topic, 0.001, JavaLoad(VALUES, "lz4"))
    with kprod.Consumer(bootstrap_servers=kafka.bootstrap_servers) as consumer:
        partition = kprod.TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning()
        found = consumer.poll(10)
        assert consumer.end_offsets([partition])[partition] == figures["offset"]
    assert {record.value for record in found} == set(VALUES)
