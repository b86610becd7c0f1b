"""librdkafka's consumer read by assignment."""

import confluent_kafka


def polled(consumer: confluent_kafka.Consumer, timeout_s: float) -> confluent_kafka.Message:
    """The consumer's next record.

    Args:
        consumer: With partitions assigned.
        timeout_s: Longest wait for it.

    Returns:
        A message without an error.
    """
    message = consumer.poll(timeout_s)
    assert message is not None
    assert message.error() is None, message.error()
    return message
