"""Counts a topic's records by the end offsets that its brokers report.

Thread-safety: pure functions.
"""

from kprod.config import ClientConfig
from kprod.errors import UnknownTopic
from kprod.network.topic_reader import ReaderOptions, TopicReader

_TOPIC_WAIT_MS = 500


def end_offset_sum(config: ClientConfig, topic: str) -> int:
    """Add up the end offsets of a topic's partitions.

    Args:
        config: The client settings.
        topic: The topic's name.

    Returns:
        The sum; 0 if there is no such topic.

    Raises:
        KprodError: No broker responded.
    """
    options = ReaderOptions(topic_wait_ms=_TOPIC_WAIT_MS)
    try:
        with TopicReader(config, topic, options=options) as reader:
            return sum(end for _, end in reader.ranges().values())
    except UnknownTopic:
        return 0
