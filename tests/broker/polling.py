"""librdkafka's consumer read by assignment, where no group has a coordinator.

It must have a group id and looks for a coordinator all the same; that there is none it tells once,
among the messages. It must not commit by itself (`enable.auto.commit`), or its `close` waits for a
coordinator.
"""

import confluent_kafka


def says_no_group(message: confluent_kafka.Message) -> bool:
    """Whether a message says that the group has no coordinator here, and is no record."""
    error = message.error()
    return error is not None and error.code() == error.GROUP_AUTHORIZATION_FAILED


def polled(consumer: confluent_kafka.Consumer, timeout_s: float) -> confluent_kafka.Message:
    """The consumer's next record.

    Args:
        consumer: With partitions assigned.
        timeout_s: Longest wait for one message.

    Returns:
        A message without an error.
    """
    while True:
        message = consumer.poll(timeout_s)
        assert message is not None
        if not says_no_group(message):
            assert message.error() is None, message.error()
            return message
