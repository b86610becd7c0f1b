"""Prints records as a member of a consumer group, which continues where the group has stopped.

A record counts as read when it was written to standard output: Ctrl-C in the middle of a batch
leaves that whole batch to the next member.

Thread-safety: a command.
Source: kcat 1.7's manual for patterns of topics, kafka-console-consumer (Kafka 4.3.1) for groups.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

import click

from kprod.consumer.consumer import Consumer

POLL_S = 0.2
ROWS_MAX = 1_000
_RESETS: Mapping[str, str] = {"beginning": "earliest", "end": "latest"}
_OF_PARTITIONS = {"partition": "--partition", "to": "--to", "exit_at_end": "--exit"}


def reset_policy(options: Mapping[str, Any]) -> str:
    """Return where partitions begin for which the group has no offset.

    Args:
        options: The command's options, with a group.

    Returns:
        A value of `auto_offset_reset`.

    Raises:
        click.UsageError: An option does not fit a group.
    """
    for name, option in _OF_PARTITIONS.items():
        if options[name]:
            raise click.UsageError(
                f"{option} reads partitions; with --group, the group assigns them"
            )
    policy = _RESETS.get(options["begin"])
    if policy is None:
        raise click.UsageError(
            f"--from {options['begin']}: with --group, it is beginning or end, and counts for"
            " partitions without a committed offset; kprod groups reset sets offsets"
        )
    return policy


class GroupRun:
    """Prints the records of a group's member.

    Args:
        consumer: A consumer with `group_id`.
        stream: Stream that the records are written to.
        line_of: Formats one record as bytes.
        limit: Maximum number of records; None for no limit.

    Attributes:
        count: Number of printed records.
    """

    __slots__ = ("_consumer", "_limit", "_line_of", "_stream", "count")

    def __init__(
        self,
        consumer: Consumer,
        stream: BinaryIO,
        line_of: Callable[[Any], bytes],
        limit: int | None,
    ) -> None:
        self._consumer = consumer
        self._stream = stream
        self._line_of = line_of
        self._limit = limit
        self.count: int = 0

    def read(self, topic: str, timeout: float | None) -> None:
        """Print records until the limit or the timeout, and close the consumer.

        Args:
            topic: A topic, or a pattern that begins with ^.
            timeout: Seconds without a record after which it ends; None for no limit.

        Raises:
            KeyboardInterrupt: Ctrl-C.
        """
        # An exception, such as that of Ctrl-C, commits nothing that the last poll returned: it may
        # come before these are printed. Each poll marks those of the one before as read.
        with self._consumer:
            self._follow(topic, timeout)

    def _follow(self, topic: str, timeout: float | None) -> None:
        if topic.startswith("^"):
            self._consumer.subscribe(pattern=topic)
        else:
            self._consumer.subscribe([topic])
        silent_s = 0.0
        while self._limit is None or self.count < self._limit:
            rest = ROWS_MAX if self._limit is None else self._limit - self.count
            records = self._consumer.poll(POLL_S, min(rest, ROWS_MAX))
            self._print(records)
            silent_s = 0.0 if records else silent_s + POLL_S
            if timeout is not None and silent_s >= timeout:
                return

    def _print(self, records: Sequence[Any]) -> None:
        for record in records:
            line = self._line_of(record)
            self.count += 1  # counted before the write, since Ctrl-C may come right after it
            self._stream.write(line)
        self._stream.flush()
