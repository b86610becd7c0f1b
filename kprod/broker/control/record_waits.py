"""Waits for records that the tested code sends later, or on other threads.

The broker's thread checks the log's size every few milliseconds; the log is decoded only when it
has grown, so a wait uses almost no CPU time.

Thread-safety: as `EmbeddedCluster`, which must run in its own thread.
"""

import asyncio
import threading

from kprod.broker.cluster_runner import ClusterRunner
from kprod.broker.control.topic_control import TopicControl
from kprod.clock import SystemClock
from kprod.errors import KprodTimeout
from kprod.model import Record
from kprod.wording import counted

LOOK_S = 0.005
_MS_PER_S = 1_000


class RecordWaits(TopicControl):
    """Methods of an `EmbeddedCluster` that wait for records."""

    __slots__ = ()

    def wait_for_records(
        self, topic: str, count: int = 1, *, timeout: float = 10.0
    ) -> dict[int, list[Record]]:
        """Wait until a topic has at least `count` records.

        Args:
            topic: Name of the topic, which may be created during the wait.
            count: Minimum number of records in all partitions together.
            timeout: Seconds to wait.

        Returns:
            All records of the topic, in order of offset, by partition, as from `records`.

        Raises:
            KprodTimeout: The topic has fewer records after the timeout; the text says how many.
        """
        log = _GrowingLog(self, self._kprod, topic, count=count, timeout_s=timeout)
        while (found := log.look()) is None:
            threading.Event().wait(LOOK_S)
        return found

    async def async_wait_for_records(
        self,
        topic: str,
        count: int = 1,
        *,
        timeout: float = 10.0,  # noqa: ASYNC109 - the error says how many records there are
    ) -> dict[int, list[Record]]:
        """Wait as `wait_for_records` does, while the event loop runs other tasks.

        Args:
            topic: Name of the topic, which may be created during the wait.
            count: Minimum number of records in all partitions together.
            timeout: Seconds to wait.

        Returns:
            All records of the topic, in order of offset, by partition.

        Raises:
            KprodTimeout: The topic has fewer records after the timeout; the text says how many.
        """
        log = _GrowingLog(self, self._kprod, topic, count=count, timeout_s=timeout)
        while (found := log.look()) is None:  # noqa: ASYNC110 - the log is on another thread
            await asyncio.sleep(LOOK_S)
        return found


class _GrowingLog:
    """Checks a topic's log until it has enough records."""

    __slots__ = (
        "_clock",
        "_cluster",
        "_count",
        "_deadline_ms",
        "_ends",
        "_found",
        "_runner",
        "_timeout_s",
        "_topic",
    )

    def __init__(
        self,
        cluster: RecordWaits,
        runner: ClusterRunner,
        topic: str,
        *,
        count: int,
        timeout_s: float,
    ) -> None:
        self._cluster = cluster
        self._runner = runner
        self._topic = topic
        self._count = count
        self._timeout_s = timeout_s
        self._clock = SystemClock()
        self._deadline_ms = self._clock.now_ms() + round(timeout_s * _MS_PER_S)
        self._ends: list[int] | None = None
        self._found = 0

    def look(self) -> dict[int, list[Record]] | None:
        """Return the records if there are enough.

        Returns:
            All records; None if there are too few.

        Raises:
            KprodTimeout: The timeout is over.
        """
        ends = self._runner.call(self._end_offsets)
        if ends is not None and ends != self._ends:
            self._ends = ends
            records = self._cluster.records(self._topic)
            self._found = sum(map(len, records.values()))
            if self._found >= self._count:
                return records
        if self._clock.now_ms() >= self._deadline_ms:
            raise KprodTimeout(
                f"topic {self._topic!r} has {counted(self._found, 'record')} of {self._count} after"
                f" {self._timeout_s:g} s"
            )
        return None

    def _end_offsets(self) -> list[int] | None:
        topic = self._runner.engine.state.topics.get(self._topic)
        if topic is None:
            return None
        return [partition.log.log_end_offset for partition in topic.partitions]
