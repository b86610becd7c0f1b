"""Counts a topic's records by the end offsets that its brokers report.

Thread-safety: pure functions.
"""

from collections.abc import Mapping

from kprod.config.consumer_config import ConsumerConfig
from kprod.config.environment import settings_for
from kprod.consumer.consumer import Consumer
from kprod.consumer.whole_topic import offset_ranges
from kprod.errors import UnknownTopic

_TOPIC_WAIT_MS = 500


def end_offset_sum(settings: Mapping[str, object], topic: str) -> int:
    """Add up the end offsets of a topic's partitions.

    Args:
        settings: A client's settings; those that no consumer has are left out.
        topic: The topic's name.

    Returns:
        The sum; 0 if there is no such topic.

    Raises:
        KprodError: No broker responded.
    """
    try:
        with Consumer(settings=settings_for(ConsumerConfig, settings)) as consumer:
            ranges = offset_ranges(consumer, topic, topic_wait_ms=_TOPIC_WAIT_MS)
        return sum(end for _, end in ranges.values())
    except UnknownTopic:
        return 0
