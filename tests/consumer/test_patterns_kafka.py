"""Subscriptions by pattern against both brokers, beside confluent-kafka's."""

from typing import Any

import confluent_kafka

from kprod import Consumer
from kprod.protocol.api import ApiKey
from tests.conformance.sides import Side
from tests.consumer.reading import CLOCK, LIMIT_S

QUICK_MS = 500


def test_a_member_by_pattern_beside_a_peers(side: Side) -> None:
    """Both find a new topic, and share it; a deleted one is read no more."""
    first = side.create("pattern", 2).topic
    prefix = "pattern-" + first.split("-")[1]
    peer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": side.address,
            "group.id": first,
            "topic.metadata.refresh.interval.ms": QUICK_MS,
            "partition.assignment.strategy": "range",
        }
    )
    peer.subscribe([f"^{prefix}.*"])
    settings: dict[str, Any] = {"bootstrap_servers": side.address, "group_id": first}
    with Consumer(
        **settings, metadata_max_age_ms=QUICK_MS, partition_assignment_strategy=["range"]
    ) as consumer:
        consumer.subscribe(pattern=prefix)

        def shares() -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
            consumer.poll(0.05)
            peer.poll(0.05)
            ours = {(key.topic, key.partition) for key in consumer.assignment()}
            return ours, {(it.topic, it.partition) for it in peer.assignment()}

        def wait_for(*topics: str) -> None:
            wanted = {(topic, number) for topic in topics for number in (0, 1)}
            until_ms = CLOCK.now_ms() + 2 * LIMIT_S * 1_000
            while True:
                ours, theirs = shares()
                if ours | theirs == wanted and len(ours) == len(theirs) and not ours & theirs:
                    return
                assert CLOCK.now_ms() < until_ms, (ours, theirs)

        try:
            wait_for(first)
            second = side.create("pattern", 2).topic
            wait_for(first, second)
            body = {"topic_names": [first], "timeout_ms": 5_000}
            side.ask(ApiKey.DELETE_TOPICS, 5, body)
            wait_for(second)
        finally:
            peer.close()
