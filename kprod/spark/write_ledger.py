"""Ids of batch writes that were committed, in a compacted topic: `write.id`.

A write is looked up when it is planned and entered when it is committed, both on the driver's
machine. Between the last acknowledged row and the entry a write may still fail; if it is run again,
it writes its rows again. Two concurrent writes with one id do not notice each other.

Invariants.
    An entry is acknowledged by all in-sync replicas before the commit ends.

Thread-safety: one thread.
Source: Delta Lake's options txnAppId and txnVersion, for the idea.
"""

from collections.abc import Mapping

from kprod import Consumer, Producer
from kprod.config import ProducerConfig
from kprod.config.config_file import with_overrides
from kprod.config.consumer_config import ConsumerConfig
from kprod.config.environment import settings_for
from kprod.consumer.whole_topic import records_to_end
from kprod.errors import BrokerError, KprodError, UnknownTopic
from kprod.network.topic_admin import create_topic
from kprod.protocol.error_table import ErrorCode
from kprod.secret import Secret
from kprod.spark.task_failure import TaskFailed
from kprod.spark.task_messages import WriteReport
from kprod.spark.token_providers import client_settings

__all__ = ["WriteLedger"]

KEY_PREFIX = "write/"  # other kinds of entries may share the topic
READER = {"client.id": "kprod-ledger", "auto.offset.reset": "earliest"}
# Whatever the options say of the rows, an entry that is lost would have them written again.
WRITER = {"client.id": "kprod-ledger", "acks": "all"}
READER_TIMEOUT_MS = 8_000
TOPIC_WAIT_MS = 1_000
ENTRY_TIMEOUT_S = 30.0


class WriteLedger:
    """The committed writes of one cluster.

    Args:
        settings: The producer's, resolved.
        topic: Topic of the entries.
    """

    __slots__ = ("_settings", "_topic")

    def __init__(self, settings: Mapping[str, str | Secret], topic: str) -> None:
        self._settings = client_settings(settings)
        self._topic = topic

    def find(self, write_id: str) -> WriteReport | None:
        """Look up a write; creates the topic if it does not exist.

        Args:
            write_id: The write's.

        Returns:
            The report of the write that was committed with this id; None if there was none.

        Raises:
            KprodError: The topic can be neither read nor made.
        """
        try:
            return self._read(write_id)
        except UnknownTopic:
            if self._is_made():
                return None
        return self._read(write_id)

    def enter(self, write_id: str, report: WriteReport) -> None:
        """Enter a write that is committed.

        Args:
            write_id: The write's.
            report: Report of the write.

        Raises:
            TaskFailed: The entry is not acknowledged, so that the write may be run again.
        """
        try:
            with Producer(with_overrides(self._settings, WRITER)) as producer:
                future = producer.send(
                    self._topic, report.to_json().encode(), key=_key(write_id), partition=0
                )
                future.result(ENTRY_TIMEOUT_S)
        except KprodError as error:
            raise TaskFailed(
                f"every row is in its topic, but write.id={write_id!r} is not entered in"
                f" {self._topic!r}, so that the same write would be written again: {error}"
            ) from error

    def _read(self, write_id: str) -> WriteReport | None:
        key, found = _key(write_id), None
        reader = {**READER, "default.api.timeout.ms": READER_TIMEOUT_MS}
        settings = with_overrides(settings_for(ConsumerConfig, self._settings), reader)
        with Consumer(settings=settings) as consumer:
            for record in records_to_end(consumer, self._topic, topic_wait_ms=TOPIC_WAIT_MS):
                if record.key == key:
                    found = record.value
        return None if found is None else WriteReport.from_json(bytes(found).decode())

    def _is_made(self) -> bool:
        """Make the topic; return False where another was first."""
        compacted = {"cleanup.policy": "compact"}
        try:
            create_topic(self._config(), self._topic, 1, settings=compacted)
        except BrokerError as error:
            if error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                return False
            raise
        return True

    def _config(self) -> ProducerConfig:
        return ProducerConfig.parse(self._settings)


def _key(write_id: str) -> bytes:
    return f"{KEY_PREFIX}{write_id}".encode()
