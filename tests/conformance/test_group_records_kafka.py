"""The records of `__consumer_offsets`, one by one, for the same requests at both brokers.

Times and ids differ, and Kafka writes a group's members, and the tombstones of its offsets, in the
order of a hash map; all else is equal: keys, values with their versions and sizes, order,
tombstones.
"""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.broker.internal_topics import OFFSETS_TOPIC
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.conformance.group_crew import LEVELS, Crew, subscription, topic_of
from tests.conformance.group_log import Told
from tests.conformance.sides import Side, Sides
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_tools import KafkaTools

_run = uuid.uuid4().hex[:8]


class Scene(Crew):
    """A crew whose group and topic have the same names at both brokers."""

    def __init__(self, side: Side, topic: str, group_id: str, level: str = "highest") -> None:
        """Make the topic."""
        self.topic_name = topic
        super().__init__(side, level, topic_of(side, topic), group_id)

    def joins(self, *names: str, **fields: Any) -> None:
        """Let members join, the first of them last, and all sync."""
        for name in names[1:]:
            self.join(name, **fields)
        if len(names) > 1:
            self.await_state("PreparingRebalance", len(names))
        self.join(names[0], **fields)
        for name in names:
            self.joined(name)
        for name in names[1:]:
            self.send(name, ApiKey.SYNC_GROUP, self.sync_body(name))
        self.ask(names[0], ApiKey.SYNC_GROUP, self.sync_body(names[0], *names))
        for name in names[1:]:
            self.read(name, ApiKey.SYNC_GROUP)

    def commits(
        self, *partitions: tuple[int, int, int, str], version: int | None = None, **body: Any
    ) -> None:
        """Commit partition, offset, epoch and text."""
        entries = [
            {
                "partition_index": index,
                "committed_offset": offset,
                "committed_leader_epoch": epoch,
                "committed_metadata": text,
            }
            for index, offset, epoch, text in partitions
        ]
        wish = {
            "group_id": self.group_id,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [
                {
                    "name": self.topic_name,
                    "topic_id": self.target.topic_id,
                    "partitions": entries,
                }
            ],
            **body,
        }
        spoken = self.versions[ApiKey.OFFSET_COMMIT] if version is None else version
        answer = self.side.ask(ApiKey.OFFSET_COMMIT, spoken, wish)
        codes = [it["error_code"] for topic in answer["topics"] for it in topic["partitions"]]
        assert set(codes) == {ErrorCode.NONE}


def generations(scene: Scene) -> None:
    """Members come, one comes again with other metadata, and all leave."""
    scene.joins("A")
    scene.joins("A", "B")
    more = [{"name": "range", "metadata": subscription(scene.topic_name, "more")}]
    scene.joins("A", "B", protocols=more)
    for name in ("B", "A"):
        leave = scene.leave_body((scene.ids[name], None))
        scene.ask("admin", ApiKey.LEAVE_GROUP, leave)
    scene.await_state("Empty", 0)


def static_members(scene: Scene) -> None:
    """One comes again under another id, without a rebalance; an administrator removes it."""
    scene.instances["S"] = "the-instance"
    scene.joins("S")
    del scene.ids["S"]
    scene.join("S")
    scene.joined("S")
    scene.ask("admin", ApiKey.LEAVE_GROUP, scene.leave_body(("", "the-instance")))
    scene.await_state("Empty", 0)


def rejected_join(scene: Scene) -> None:
    """A join that is rejected makes the group all the same."""
    scene.ask("D", ApiKey.JOIN_GROUP, scene.join_body("D", protocols=[]))
    scene.commit_beside()


def commits_of_a_member(scene: Scene) -> None:
    """Several partitions in one request, with epochs and texts; then one again."""
    scene.joins("A")
    identity: dict[str, Any] = {
        "generation_id_or_member_epoch": scene.generation,
        "member_id": scene.ids["A"],
    }
    scene.commits((0, 5, 3, "text"), (2, 7, -1, ""), **identity)
    scene.commits((2, 8, 0, "\N{SNOWMAN}"), **identity)


def commits_of_nobody(scene: Scene) -> None:
    """A negative offset, the largest one, and the lowest version."""
    scene.commits((0, -5, -1, ""), (1, 2**63 - 1, 2**31 - 1, "x" * 4_096))
    scene.commits((0, 6, -1, "old"), version=2, retention_time_ms=-1)


def commits_with_a_retention(scene: Scene) -> None:
    """Versions 2 to 4 bring one."""
    scene.commits((1, 1, -1, "short"), version=3, retention_time_ms=60_000_000)


def deletions(scene: Scene) -> None:
    """Tombstones of an offset, then of the group and the others."""
    scene.commits((0, 1, -1, ""), (1, 2, -1, ""), (2, 3, -1, ""))
    topics = [{"name": scene.topic_name, "partitions": [{"partition_index": 1}]}]
    body = {"group_id": scene.group_id, "topics": topics}
    scene.side.ask(ApiKey.OFFSET_DELETE, 0, body)
    scene.side.ask(ApiKey.DELETE_GROUPS, 2, {"groups_names": [scene.group_id]})


def deletion_of_a_topic(scene: Scene) -> None:
    """Tombstones of its offsets."""
    scene.commits((0, 1, -1, ""))
    scene.side.ask(
        ApiKey.DELETE_TOPICS, 5, {"topic_names": [scene.topic_name], "timeout_ms": 30_000}
    )
    while scene.records()[-1].fields is not None:
        pass  # each question takes the broker's time


SCENES: dict[str, Callable[[Scene], None]] = {
    it.__name__: it
    for it in (
        generations,
        static_members,
        rejected_join,
        commits_of_a_member,
        commits_of_nobody,
        commits_with_a_retention,
        deletions,
        deletion_of_a_topic,
    )
}


STATIC_SCENES = {"static_members"}
"""They need versions with instance ids."""


@pytest.fixture
def scenes(sides: Sides, level: str, play: Callable[[Scene], None]) -> Iterator[list[Scene]]:
    """A crew on each side.

    Yields:
        Both.
    """
    name = f"{play.__name__}-{level}-{_run}"
    both = [Scene(side, f"topic-{name}", f"records-{name}", level) for side in sides]
    yield both
    for scene in both:
        scene.close()


@pytest.mark.parametrize(
    ("play", "level"),
    [
        pytest.param(play, level, id=f"{name}-{level}")
        for name, play in SCENES.items()
        for level in LEVELS
        if name not in STATIC_SCENES or level != "lowest"
    ],
)
def test_the_records_of_a_script(scenes: list[Scene], play: Callable[[Scene], None]) -> None:
    """Record by record equal."""
    ours, theirs = [_played(scene, play) for scene in scenes]
    assert ours == theirs
    assert ours


def _played(scene: Scene, play: Callable[[Scene], None]) -> list[Told]:
    play(scene)
    return scene.records()


def test_kafkas_tool_decodes_our_records(kafka_artifacts: Artifacts, tmp_path: Path) -> None:
    """DumpLogSegments with its decoder of offsets names every group, member and offset."""
    config = EmbeddedConfig(offsets_topic_num_partitions=1)
    with EmbeddedCluster(brokers=1, config=config, data_dir=tmp_path) as cluster:
        side = Side("embedded", cluster.bootstrap_servers)
        for play in (generations, static_members, commits_of_a_member, deletions):
            scene = Scene(side, "orders", play.__name__)
            play(scene)
            scene.close()
    tools = KafkaTools(kafka_artifacts)
    files = ",".join(map(str, sorted(tmp_path.rglob(f"{OFFSETS_TOPIC}-0/*.log"))))
    assert files
    arguments = ("--offsets-decoder", "--files", files)
    dumped = tools.run("org.apache.kafka.tools.DumpLogSegments", *arguments)

    lines = [line for line in dumped.splitlines() if line.startswith("| offset")]
    assert all('key: {"type":"' in line for line in lines)
    assert "isvalid: false" not in dumped
    groups = [line for line in lines if '"type":"2"' in line]
    assert any('"groupInstanceId":"the-instance"' in line for line in groups)
    assert any('"protocol":"range"' in line for line in groups)
    offsets = [line for line in lines if '"topic":"orders"' in line]
    assert any('"offset":8' in line and "\N{SNOWMAN}" in line for line in offsets)
    assert sum("payload: <DELETE>" in line for line in lines) == 4
