"""The topics of a run, which may be made again and grow, and every log that they have had."""

from collections.abc import Callable, Mapping
from typing import Any

from kprod.broker import EmbeddedCluster
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import response_codec
from kprod.protocol.headers import decode_response_header
from tests.sim.oracle import Logs, read_logs
from tests.sim.plan import Plan
from tests.sim.shapes import PARTITIONS_MAX

REMAKES_MAX = 4
_KEPT_FRAMES = 20


class Topics:
    """The topics of one run.

    Args:
        plan: Names them.
        cluster: Has them first.

    Attributes:
        cluster: Has them; another one after a restart.
        counts: Partitions of each topic now.
        fewest: The fewest partitions that each topic has had.
        remade: Topics that were made again.
        on_retire: Told of a topic and its batches before it is deleted.
    """

    def __init__(self, plan: Plan, cluster: EmbeddedCluster) -> None:
        self.on_retire: Callable[[str, Any], object] = lambda *_: None
        self.counts: dict[str, int] = dict(plan.topics)
        self.fewest: dict[str, int] = dict(plan.topics)
        self.remade: set[str] = set()
        self.cluster = cluster
        self._generations: dict[str, int] = dict.fromkeys(plan.topics, 0)
        self._retired: dict[tuple[str, int, int], Any] = {}
        self._keeps_frames = any(entry["kind"] == "stale_metadata" for entry in plan.faults)
        self._frames: list[bytes] = []  # Metadata responses that clients have read
        self._version = 0  # one for all topics

    def remake(self, topic: str, count: int) -> bool:
        """Delete a topic and make another of its name; what it held is kept for the oracle."""
        if self._generations[topic] >= REMAKES_MAX:
            return False
        self._retired |= self._logs_of(topic)
        self.on_retire(topic, self.cluster.batches(topic))
        self._generations[topic] += 1
        self.cluster.delete_topic(topic)
        self.cluster.create_topic(topic, count)
        self.counts[topic] = count
        self.fewest[topic] = min(self.fewest[topic], count)
        self.remade.add(topic)
        return True

    def grow(self, topic: str) -> bool:
        """Add a partition."""
        if self.counts[topic] >= PARTITIONS_MAX:
            return False
        count = self.counts[topic] + 1
        engine = self.cluster._kprod.engine
        engine.state.topics.grow(topic, count, assignment=None, dry_run=False)
        self.counts[topic] = count
        return True

    def logs(self) -> Logs:
        """Return the records of every log that there ever was."""
        found = dict(self._retired)
        for topic in self.counts:
            found |= self._logs_of(topic)
        return found

    def _logs_of(self, topic: str) -> dict[tuple[str, int, int], Any]:
        generation = self._generations[topic]
        logs = read_logs(self.cluster.batches(topic))
        return {(topic, partition, generation): log for partition, log in logs.items()}

    def note_metadata(self, frame: bytes, version: int) -> None:
        """Keep a Metadata response that a client has read, if the plan needs older ones."""
        if not self._keeps_frames:
            return
        self._version = version
        if _body_of(frame, version)["throttle_time_ms"]:
            return  # said again, it would be another throttle
        self._frames.append(frame)
        del self._frames[:-_KEPT_FRAMES]

    def older_metadata(self, frame: bytes, choice: int) -> bytes:
        """Return an earlier response about the same topics under the number of a later one.

        Args:
            frame: The broker's response.
            choice: Index of the earlier response.
        """
        if not self._frames:
            return frame
        names = _topics_in(frame, self._version)
        older = [kept for kept in self._frames if _topics_in(kept, self._version) == names]
        return frame[:4] + older[choice % len(older)][4:] if older else frame


def _body_of(frame: bytes, version: int) -> Mapping[str, Any]:
    _, at = decode_response_header(ApiKey.METADATA, version, frame)
    body: Mapping[str, Any] = response_codec(ApiKey.METADATA, version).decode(frame[at:])
    return body


def _topics_in(frame: bytes, version: int) -> list[str]:
    return sorted(str(topic["name"]) for topic in _body_of(frame, version)["topics"])
