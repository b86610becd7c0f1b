# cython: annotation_typing=False, nonecheck=True
"""Where a record without key and partition goes: one partition at a time, the short queues first.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Such records stick to one partition until its batch is closed, full or drained; then another is
drawn, with weights that favour partitions whose queues are short. So batches are whole, and a slow
broker gets less.

Left out of the draw, unless that leaves nobody, in this order: partitions whose leader is not
known; those whose leader has taken nothing for `partitioner_availability_timeout_ms` while it had
something to take; with `partitioner_rack_aware`, those led from another rack than `client_rack`.

Thread-safety: `roll` any thread, under the GIL; the methods that note nodes the sender.
Source: KIP-480 for the moment of change, KIP-794 for weights and availability, KIP-1123 for racks;
kprod's departure 13.
"""

import bisect
import itertools
import random
from collections.abc import Mapping
from typing import NamedTuple

from kprod._core.send.key_hash import KeyHash
from kprod.clock import Clock
from kprod.cluster.metadata import Metadata
from kprod.config import PartitionerSettings
from kprod.producer.topic_queues import TopicQueues

# Weighing ten thousand queues for each batch would cost more than it gains.
WEIGHTS_LIFE_MS = 20
WEIGHED_PER_MS = 50

NULL_KEY_BYTES = -1
NEVER_HASHED_BYTES = 2**31


class KeyRule(NamedTuple):
    """Which keys decide a record's partition, and how.

    Attributes:
        key_hash: Its remainder is the partition.
        bytes_min: Shorter keys decide nothing; a null key counts as −1.
    """

    key_hash: KeyHash
    bytes_min: int


KEY_RULES: Mapping[str, KeyRule] = {
    "murmur2": KeyRule(KeyHash.MURMUR2, 0),
    "consistent": KeyRule(KeyHash.CRC32, NULL_KEY_BYTES),
    "consistent_random": KeyRule(KeyHash.CRC32, 1),
    "fnv1a": KeyRule(KeyHash.FNV1A, NULL_KEY_BYTES),
    "fnv1a_random": KeyRule(KeyHash.FNV1A, 0),
}
"""The partitioners by name. Those but the first are librdkafka's, null and empty keys included."""

ROUND_ROBIN = "round_robin"


def key_rule(settings: PartitionerSettings) -> KeyRule:
    """Say which keys decide.

    Args:
        settings: Of partitioning.

    Returns:
        The named partitioner's rule; Kafka's own for none.
    """
    name = settings.partitioner if isinstance(settings.partitioner, str) else "murmur2"
    rule = KEY_RULES.get(name, KEY_RULES["murmur2"])
    if settings.partitioner_ignore_keys:
        return rule._replace(bytes_min=NEVER_HASHED_BYTES)
    return rule


class Weights:  # noqa: B903 - those would be made by Python code
    """Weights of the partitions, and when they were computed.

    Attributes:
        candidates: Partitions, ascending.
        cumulated: The sum of the weights up to each.
        weighed_at_ms: Monotonic.
    """

    def __init__(self, candidates: list[int], cumulated: list[int], weighed_at_ms: int) -> None:
        self.candidates = candidates
        self.cumulated = cumulated
        self.weighed_at_ms = weighed_at_ms


class StickyPartitioner:
    """Draws the next partition for records that nothing binds to one."""

    def __init__(
        self,
        settings: PartitionerSettings,
        metadata: Metadata,
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        """Take metadata and settings.

        Args:
            settings: Of partitioning.
            metadata: Leaders of partitions and their racks.
            clock: Weights are kept for a while.
            rng: Of randomness.
        """
        self._settings = settings
        self._metadata = metadata
        self._clock = clock
        self._rng = rng
        self._held_since_ms: dict[int, int] = {}
        self._weights: dict[str, Weights] = {}

    @property
    def takes_turns(self) -> bool:
        """Whether records go to the partitions in turn instead."""
        return self._settings.partitioner == ROUND_ROBIN

    def roll(self, routes: TopicQueues) -> None:
        """Draw another partition for a topic.

        Args:
            routes: Has at least one partition.
        """
        weights = self._weights.get(routes.name)
        now_ms = self._clock.now_ms()
        life_ms = WEIGHTS_LIFE_MS + routes.partition_count // WEIGHED_PER_MS
        if (
            weights is None
            or now_ms - weights.weighed_at_ms >= life_ms
            or weights.candidates[-1] >= routes.partition_count
        ):
            weights = self._weights[routes.name] = self._weigh(routes, now_ms)
        # `randrange` is Python code, and this is on the direct path (`COMPILED_MODULES`).
        drawn = int(self._rng.random() * weights.cumulated[-1])
        routes.sticky = weights.candidates[bisect.bisect_right(weights.cumulated, drawn)]

    def follow(self, routes: TopicQueues) -> None:
        """Let records without key go to partitions that there are, in turn to led ones if any are.

        Args:
            routes: Its number of partitions, or their leaders, may have changed.
        """
        if self.takes_turns:
            leader_of = self._metadata.snapshot.leader_of
            led = [
                p for p in range(routes.partition_count) if leader_of(routes.name, p) is not None
            ]
            routes.turns = led if len(led) < routes.partition_count else []
        if routes.sticky >= routes.partition_count:
            self.roll(routes)

    def note_held(self, node_id: int, now_ms: int) -> None:
        """Note that a node cannot take what there is for it.

        Args:
            node_id: Not connected, throttled or full.
            now_ms: Monotonic time.
        """
        self._held_since_ms.setdefault(node_id, now_ms)

    def note_taking(self, node_id: int) -> None:
        """Note that a node takes what there is for it.

        Args:
            node_id: Any.
        """
        if self._held_since_ms:
            self._held_since_ms.pop(node_id, None)

    def forget_nodes_but(self, node_ids: list[int]) -> None:
        """A node with nothing to take cannot be slow.

        Args:
            node_ids: Nodes that have something to take.
        """
        if self._held_since_ms:
            for node_id in self._held_since_ms.keys() - node_ids:
                del self._held_since_ms[node_id]

    def _weigh(self, routes: TopicQueues, now_ms: int) -> Weights:
        candidates = self._candidates(routes, now_ms)
        if not self._settings.partitioner_adaptive_partitioning_enable:
            return Weights(candidates, list(range(1, len(candidates) + 1)), now_ms)
        lengths = [len(routes.queues[partition].batches) for partition in candidates]
        longest = max(lengths)
        weights = itertools.accumulate(longest + 1 - length for length in lengths)
        return Weights(candidates, list(weights), now_ms)

    def _candidates(self, routes: TopicQueues, now_ms: int) -> list[int]:
        """Partitions to draw from, ascending, at least one."""
        snapshot = self._metadata.snapshot
        everyone = range(routes.partition_count)
        led = [(p, snapshot.leader_of(routes.name, p)) for p in everyone]
        leaders = {p: leader for p, leader in led if leader is not None}
        timeout_ms = self._settings.partitioner_availability_timeout_ms
        if timeout_ms:
            held = self._held_since_ms
            slow = {n for n, since_ms in list(held.items()) if now_ms - since_ms > timeout_ms}
            leaders = {p: n for p, n in leaders.items() if n.node_id not in slow} or leaders
        if self._settings.partitioner_rack_aware:
            rack = self._settings.client_rack
            near = {partition: node for partition, node in leaders.items() if node.rack == rack}
            leaders = near or leaders
        return list(leaders) or list(everyone)
