"""Watches the wire of a crew's member: which commits have no response, and may still take effect.

A request of a connection that has ended may reach its broker after a newer one, since its bytes
outlive it; no client can prevent that.
"""

import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from kprod.model import TopicPartition
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import request_codec
from kprod.protocol.headers import decode_request_header
from tests.sim.link import Link
from tests.sim.tap import FrameStream


class CrewTap:
    """The commits and the first joins of one member.

    Args:
        name_of: Returns the name of a topic by its id.

    Attributes:
        unanswered: The commits' offsets by partition, by link and correlation id; a response takes
            them out, the end of a link does not.
        join_count: Number of joins without a member id.
    """

    def __init__(self, name_of: Callable[[uuid.UUID], str]) -> None:
        self._name_of = name_of
        self.join_count = 0
        self.unanswered: dict[tuple[int, int], dict[TopicPartition, int]] = {}
        self._up: dict[int, FrameStream] = defaultdict(FrameStream)
        self._down: dict[int, FrameStream] = defaultdict(FrameStream)

    def connected(self, link: Link) -> None:
        """Ignore an attempt to connect."""

    def wrote(self, link: Link, data: bytes) -> None:
        """Note the commits and joins among the requests that are written whole."""
        for frame in self._up[link.number].feed(data):
            header, at = decode_request_header(frame)
            if header.api_key == ApiKey.JOIN_GROUP:
                body = request_codec(header.api_key, header.api_version).decode(frame[at:])
                self.join_count += not body["member_id"]
            elif header.api_key == ApiKey.OFFSET_COMMIT:
                body = request_codec(header.api_key, header.api_version).decode(frame[at:])
                self.unanswered[link.number, header.correlation_id] = {
                    TopicPartition(self._name(topic), it["partition_index"]): it["committed_offset"]
                    for topic in body["topics"]
                    for it in topic["partitions"]
                }

    def _name(self, topic: Mapping[str, Any]) -> str:
        return topic.get("name") or self._name_of(topic["topic_id"])

    def read(self, link: Link, data: bytes) -> None:
        """Take out the commits whose responses have arrived."""
        for frame in self._down[link.number].feed(data):
            self.unanswered.pop((link.number, int.from_bytes(frame[:4], "big")), None)

    def shut(self, link: Link) -> None:
        """Ignore an end: written bytes may still arrive."""
