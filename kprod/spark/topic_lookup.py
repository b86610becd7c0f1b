"""Lookup of the topics that rows name, so that a name without a topic costs seconds, once.

`send_arrow` waits `max_block_ms` for each unknown topic: right for a topic that an option names and
that a restarting broker will tell, minutes too long for names that come from rows. So a task looks
up all new names together. The brokers have `TOPIC_WAIT_MS` to make one; a name that was found
absent within the last `ABSENT_VALID_MS` costs one request, in later tasks too, until it exists.

Invariants.
    At most `ABSENT_MAX` names are remembered for a producer, the newest.

Thread-safety: one thread; a worker process runs one task at a time.
"""

from collections import OrderedDict
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from kprod import Producer
from kprod.errors import BrokerError, MetadataTimeout
from kprod.producer.producer import engine_of
from kprod.producer.producer_engine import ProducerEngine
from kprod.protocol.error_table import ErrorCode

__all__ = ["ABSENT_MAX", "TOPIC_WAIT_MS", "TopicLookup", "is_topic_fault", "lookup_of"]

TOPIC_WAIT_MS = 3_000  # a new topic is not known to all brokers immediately
ABSENT_VALID_MS = 60_000
ABSENT_MAX = 1_000
ASK_AGAIN_MS = 200

_FAULT_CODES = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION})


class TopicLookup:
    """Looks up topics through one producer's metadata.

    Args:
        engine: The producer's.
        absent_ms: Absent topics, with the monotonic time at which each was found so.
    """

    __slots__ = ("_absent_ms", "_engine")

    def __init__(self, engine: ProducerEngine, absent_ms: OrderedDict[str, int]) -> None:
        self._engine = engine
        self._absent_ms = absent_ms

    def absent(self, topics: Iterable[str]) -> dict[str, BrokerError]:
        """Find the topics that cannot be written to.

        A topic about which the brokers say something else, or nothing in time, is not among them:
        the call that sends to it waits and tells.

        Args:
            topics: Legal names.

        Returns:
            The brokers' reason for each: there is no such topic, or no topic can have the name.
        """
        metadata, clock = self._engine.metadata, self._engine.clock
        begin_ms = clock.now_ms()
        max_block_ms = self._engine.config.max_block_ms
        limit_ms = min(TOPIC_WAIT_MS, max_block_ms)
        refreshes: dict[str, int] = {}
        errors: dict[str, BrokerError | None] = {}  # of the last response to each
        found: dict[str, BrokerError] = {}
        pending = set(topics)
        while pending:
            version = metadata.version  # read first, so that no response is missed
            pending = {topic for topic in pending if not metadata.snapshot.partition_count(topic)}
            waited_ms = clock.now_ms() - begin_ms
            for topic in sorted(pending):
                is_fresh = topic in refreshes and metadata.has_refreshed(topic, refreshes[topic])
                if is_fresh:
                    errors[topic] = metadata.error_of(topic)
                error = errors.get(topic)
                if error is not None and self._is_settled(topic, error, waited_ms >= limit_ms):
                    found[topic] = error
                elif topic not in refreshes or is_fresh:
                    refreshes[topic] = metadata.request_refresh(topic)
            pending -= found.keys()
            if not pending or waited_ms >= max_block_ms:
                break
            self._engine.wake()
            self._await_newer(version)
        self._remember(found)
        return found

    def _is_settled(self, topic: str, error: BrokerError, is_late: bool) -> bool:  # noqa: FBT001
        if not is_topic_fault(error):
            return False
        now_ms = self._engine.clock.now_ms()
        seen_ms = self._absent_ms.get(topic)
        was_absent = seen_ms is not None and now_ms - seen_ms < ABSENT_VALID_MS
        return is_late or was_absent or error.code == ErrorCode.INVALID_TOPIC_EXCEPTION

    def _await_newer(self, version: int) -> None:
        try:
            self._engine.metadata.wait_for_update(version, ASK_AGAIN_MS)
        except MetadataTimeout:
            return  # the loop's own limit ends it

    def _remember(self, topics: Iterable[str]) -> None:
        now_ms = self._engine.clock.now_ms()
        for topic in topics:
            self._absent_ms.pop(topic, None)
            self._absent_ms[topic] = now_ms
        while len(self._absent_ms) > ABSENT_MAX:
            self._absent_ms.popitem(last=False)


def lookup_of(producer: Producer) -> TopicLookup:
    """Return a producer's lookup, which remembers absent topics from task to task.

    Args:
        producer: The task's.

    Returns:
        The lookup.
    """
    engine = engine_of(producer)
    return TopicLookup(engine, _absent_ms.setdefault(engine, OrderedDict()))


# Until the producer ends, which a lookup would prevent if it were kept here.
_absent_ms: WeakKeyDictionary[ProducerEngine, OrderedDict[str, int]] = WeakKeyDictionary()


def is_topic_fault(error: BrokerError) -> bool:
    """Whether brokers say that a topic is absent, or that nobody may write to one of its name.

    Args:
        error: The broker's.

    Returns:
        Whether a row that names the topic is at fault.
    """
    return error.code in _FAULT_CODES
