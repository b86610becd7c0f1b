"""The commits of a run as its clients know them: the requests, and their responses.

They are seen where requests reach the broker and responses leave it, so a commit that the
coordinator acknowledges and then loses is one that this book has and the group has not.
"""

from collections.abc import Mapping
from typing import Any

from kprod.broker import EmbeddedCluster
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.strangers.watched import watch


class Commits:
    """The acknowledged commits of one topic's partitions.

    Attributes:
        last: The offset of the newest one, by partition.
        highest: The highest offset of all, by partition.
        steps_back: Commits of a lower offset than one acknowledged before.
    """

    def __init__(self, cluster: EmbeddedCluster) -> None:
        """Watch a cluster from now on."""
        self.last: dict[int, int] = {}
        self.highest: dict[int, int] = {}
        self.steps_back = 0
        watch(cluster, ApiKey.OFFSET_COMMIT, self._note)

    def _note(self, request: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        asked = _by_partition(request, "committed_offset")
        for partition, code in _by_partition(answer, "error_code").items():
            if code == ErrorCode.NONE:
                offset = asked[partition]
                self.steps_back += offset < self.last.get(partition, 0)
                self.last[partition] = offset
                self.highest[partition] = max(offset, self.highest.get(partition, 0))


def _by_partition(body: Mapping[str, Any], field: str) -> dict[int, int]:
    return {
        entry["partition_index"]: entry[field]
        for topic in body["topics"]
        for entry in topic["partitions"]
    }
