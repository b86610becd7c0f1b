"""A look at brokers and topics when a query starts, so that a wrong address or topic costs seconds.

A task waits as long as `max_block_ms` allows, in each of its attempts: right for a broker that
restarts under a running query, minutes too long for a mistake in the options.

Invariants.
    A look ends within `LOOK_TIMEOUT_MS`, whatever the brokers do.
    A process does not look again while the same write is used at least once in `LOOK_VALID_MS`: the
    next micro-batches of a query do not pay for it.

Thread-safety: one thread in each process.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from kprod.clock import SystemClock
from kprod.cluster.metadata import Metadata
from kprod.config import ProducerConfig
from kprod.errors import ConfigError, MetadataTimeout, UnknownTopic
from kprod.network.standalone_client import StandaloneClient, open_client
from kprod.protocol.error_table import ErrorCode
from kprod.secret import Secret
from kprod.spark.references import resolve
from kprod.spark.token_providers import client_settings

__all__ = ["LOOK_TIMEOUT_MS", "FirstLook", "can_resolve_here", "look"]

LOOK_TIMEOUT_MS = 8_000
TOPIC_WAIT_MS = 3_000  # a new topic is not known to all brokers immediately
LOOK_VALID_MS = 60_000  # Spark ends a worker process that was idle for so long
LOOKS_MAX = 100
TURN_MS = 100

_Key = tuple[frozenset[tuple[str, str | Secret]], frozenset[str]]


class FirstLook:
    """Looks once for each write, in one process.

    Args:
        look_at: Looks at brokers and topics; `look` of this module by default.
        now_ms: Monotonic time; the system's by default.
    """

    __slots__ = ("_look", "_now_ms", "_used_ms")

    def __init__(
        self,
        look_at: Callable[[Mapping[str, str | Secret], Iterable[str]], object] | None = None,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self._look = look_at or look
        self._now_ms = now_ms or SystemClock().now_ms
        self._used_ms: OrderedDict[_Key, int] = OrderedDict()

    def once(self, settings: Mapping[str, str | Secret], topics: Iterable[str]) -> None:
        """Check the cluster, unless this process did so recently for the same write.

        Recently means that no gap between two uses was as long as `LOOK_VALID_MS`.

        Args:
            settings: The producer's resolved settings.
            topics: Topics that the options name.

        Raises:
            KprodError: The check failed, as for `look`; the next call repeats it.
        """
        key = (frozenset(settings.items()), frozenset(topics))
        used_ms = self._used_ms.pop(key, None)
        if used_ms is None or self._now_ms() - used_ms >= LOOK_VALID_MS:
            self._look(settings, key[1])
        self._used_ms[key] = self._now_ms()
        while len(self._used_ms) > LOOKS_MAX:
            self._used_ms.popitem(last=False)


def can_resolve_here(settings: Mapping[str, str]) -> bool:
    """Whether every reference can be resolved, and every file is there, on this machine.

    Args:
        settings: The settings in the options.

    Returns:
        False where only executors can.
    """
    try:
        resolve(settings)
    except ConfigError:
        return False
    return True


def look(settings: Mapping[str, str | Secret], topics: Iterable[str]) -> None:
    """Request the topics' metadata; brokers may create them if they and the settings allow that.

    Args:
        settings: The producer's, resolved.
        topics: The topics; may be empty, then a broker must respond.

    Raises:
        MetadataTimeout: No broker responded within `LOOK_TIMEOUT_MS`; the text says why.
        UnknownTopic: There is no such topic, or it may not be used.
        ConfigError: A setting is malformed, or a file of certificates cannot be used.
        KprodError: A broker rejects the login, or its certificate is not accepted.
    """
    opened = open_client(ProducerConfig.parse(client_settings(settings)))
    try:
        _await(opened, frozenset(topics))
    finally:
        opened.close()


def _await(opened: StandaloneClient, topics: frozenset[str]) -> None:
    client, metadata, clock = opened
    begin_ms = clock.now_ms()
    while True:
        now_ms = clock.now_ms()
        waited_ms = now_ms - begin_ms
        for topic in topics:
            metadata.add_topic(topic, now_ms)
        snapshot = metadata.snapshot
        rejection = metadata.connection_failures.rejection(None)
        if snapshot.is_bootstrap and rejection is not None:
            raise rejection
        missing = [topic for topic in sorted(topics) if not snapshot.partition_count(topic)]
        if not snapshot.is_bootstrap and not missing:
            return
        for topic in missing:
            _raise_if_unusable(metadata, topic, waited_ms)
        if waited_ms >= LOOK_TIMEOUT_MS:
            raise MetadataTimeout(
                f"no broker answered within {LOOK_TIMEOUT_MS} ms, asked when the query started:"
                f" {metadata.trouble(*missing[:1])}; correct bootstrap.servers, or set"
                " check.cluster=false to start without brokers"
            )
        client.poll(TURN_MS, now_ms)


def _raise_if_unusable(metadata: Metadata, topic: str, waited_ms: int) -> None:
    error = metadata.error_of(topic)
    if error is None:
        return
    if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        if waited_ms >= TOPIC_WAIT_MS:
            raise UnknownTopic(
                f"the cluster has no topic {topic!r}, and does not make it by itself; create it,"
                " correct its name, or set check.cluster=false to start without it"
            )
    elif not error.retriable or waited_ms >= LOOK_TIMEOUT_MS:
        raise UnknownTopic(f"topic {topic!r} cannot be used: {error}") from error
