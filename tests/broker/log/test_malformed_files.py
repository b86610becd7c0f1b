"""Thirty malformed files of each kind: none loses a record, each is reported or rejected by name.

A checkpoint is ignored, an index and a snapshot are built again, and what says whose a directory is
stops the start, before anything in it is changed.
"""

import json
import uuid
from collections.abc import Callable

import pytest

from kprod.broker.log.checkpoint import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    START_OFFSETS,
)
from kprod.broker.log.durable_logs import DurableLogs, Storage
from kprod.broker.log.epochs import EPOCH_FILE
from kprod.broker.log.identity import IDENTITY_FILE, LOCK_FILE, PARTITION_FILE
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.metadata_file import METADATA_FILE, ClusterFacts, TopicFacts
from kprod.broker.rejection import DirectoryRejected
from kprod.clock import ManualClock
from kprod.model import TopicPartition
from kprod.record.control import ControlType, EndMarker, encode_marker_batch
from kprod.record.reader import read_batches
from tests.broker.log.crash_disk import CrashDisk, File
from tests.oracle.record_v2 import BatchFields, encode_batch

ROOT = "/kept"
PARTITION = TopicPartition("orders", 0)
TOPIC_ID = uuid.UUID(int=1)
RULES = SegmentRules(segment_bytes=400, index_interval_bytes=100)
BATCHES = 12

TABLES = [
    b"\n",
    b"0",
    b"0\n",
    b"0\n\n",
    b"1\n0\n",
    b"-1\n0\n",
    b"x\n0\n",
    b" 0\n1\norders 0 5\n",
    b"0\n-1\n",
    b"0\nx\n",
    b"0\n1\n",
    b"0\n2\norders 0 5\n",
    b"0\n0\norders 0 5\n",
    b"0\n1\norders 0 5",
    b"0\n1\norders 0\n",
    b"0\n1\norders 0 5 6\n",
    b"0\n1\norders x 5\n",
    b"0\n1\norders 0 x\n",
    b"0\n1\norders 0 -5\n",
    b"0\n1\norders -1 5\n",
    b"0\n1\norders 0 5.0\n",
    b"0\n1\norders 0 +5\n",
    b"0\n1\norders 0 9223372036854775808\n",
    b"0\n1\norders 0 " + b"9" * 5_000 + b"\n",
    b"0\n2\norders 0 5\norders 0 6\n",
    b"0\n1\n 0 5\n",
    b"0\n1\norders  0 5\n",
    b"0\n1\norders\t0\t5\n",
    bytes(64),
    b"\xff\xfe0\x00\n\x00",
    "0\n1\norders 0 ٣\n".encode(),
    b"0\n1000000000000\norders 0 5\n",
]
EPOCH_TABLES = [
    b"\n",
    b"0",
    b"0\n",
    b"1\n0\n",
    b"x\n0\n",
    b"0\nx\n",
    b"0\n-1\n",
    b"0\n1\n",
    b"0\n2\n3 0\n",
    b"0\n0\n3 0\n",
    b"0\n1\n3\n",
    b"0\n1\n3 0 1\n",
    b"0\n1\nx 0\n",
    b"0\n1\n3 x\n",
    b"0\n1\n-3 0\n",
    b"0\n1\n3 -1\n",
    b"0\n1\n3.5 0\n",
    b"0\n2\n3 0\n3 4\n",
    b"0\n2\n4 0\n3 4\n",
    b"0\n2\n3 4\n4 4\n",
    b"0\n2\n3 4\n4 0\n",
    b"0\n1\n99999999999 0\n",
    b"0\n1\n3 9223372036854775808\n",
    b"0\n1\n" + b"9" * 5_000 + b" 0\n",
    b"0\n1\n3 0\n\n",
    b"0\n1\n\n3 0\n",
    bytes(32),
    b"\xff\xfe0\x00\n\x00",
    b"0\n1\n3,0\n",
    b"0\n1\n0x3 0\n",
    b'{"version": 0}',
]
IDENTITIES = [
    b"\n",
    b"version\n",
    b"version=\n",
    b"version=0\ncluster.id=test\nnode.id=0\n",
    b"version=2\ncluster.id=test\nnode.id=0\n",
    b"version=x\ncluster.id=test\nnode.id=0\n",
    b"version=1\n",
    b"version=1\ncluster.id=test\n",
    b"version=1\nnode.id=0\n",
    b"version=1\ncluster.id=test\nnode.id=\n",
    b"version=1\ncluster.id=test\nnode.id=x\n",
    b"version=1\ncluster.id=test\nnode.id=0.5\n",
    b"version=1\ncluster.id=\nnode.id=0\n",
    b"version=1\ncluster.id=other\nnode.id=0\n",
    b"version=1\ncluster.id=TEST\nnode.id=0\n",
    b"version=1 cluster.id=test node.id=0\n",
    b"#version=1\ncluster.id=test\nnode.id=0\n",
    b"version:1\ncluster.id:test\nnode.id:0\n",
    b"version=1\rcluster.id=tes\rnode.id=0\r",
    b"cluster.id=test\nnode.id=0\n",
    b"version=1\nversion=3\ncluster.id=test\nnode.id=0\n",
    b"version=1\ncluster.id=test\ncluster.id=two\nnode.id=0\n",
    b"version=1\ncluster.id=test\nnode.id=" + b"9" * 5_000 + b"\n",
    b"version=1\ncluster.id=" + b"t" * 100_000 + b"\nnode.id=0\n",
    b"x" * (1 << 21),
    bytes(64),
    b"\xff\xfe",
    b'{"version": 1, "cluster.id": "test", "node.id": 0}',
    b"version=1\ncluster,id=test\nnode,id=0\n",
    b"version=1\ncluster.id=te\x00st\nnode.id=0\n",
]
OWNERS = [
    b"",
    b"\n",
    b"version: 0\n",
    b"version: 0\ntopic_id:\n",
    b"version: 0\ntopic_id: \n",
    b"version: 0\ntopic_id: x\n",
    b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAA\n",
    b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQA\n",
    b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAA!\n",
    b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg\n",
    b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n",
    b"version: 0\ntopic_id: 00000000-0000-0000-0000-000000000001\n",
    b"version: 0\ntopic_id: ++++++++++++++++++++++\n",
    b"version: 0\ntopicid: AAAAAAAAAAAAAAAAAAAAAQ\n",
    b"version: 0\ntopic_id= AAAAAAAAAAAAAAAAAAAAAQ\n",
    b"version: 0\n#topic_id: AAAAAAAAAAAAAAAAAAAAAQ\n",
    b"version=0\ntopic_id=AAAAAAAAAAAAAAAAAAAAAQ\n",
    b"topic_id\n",
    b"version: 0\ntopic_id: AAAAAAAAAA AAAAAAAAAAAQ\n",
    b"version: 0\ntopic_id: \xff\xff\n",
    "version: 0\ntopic_id: ÄAAAAAAAAAAAAAAAAAAAAQ\n".encode(),
    b"version: 0\ntopic_id: " + b"A" * 100_000 + b"\n",
    b"x" * (1 << 21),
    bytes(64),
    b"\xff\xfe",
    b'{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}',
    b"version: 0 topic_id: AAAAAAAAAAAAAAAAAAAAAQ\n",
    b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ==\n",
    b"version: 0\ntopic_id: None\n",
    b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAA\x00\n",
]


def topic(**changes: object) -> dict[str, object]:
    """A topic in the metadata."""
    fields = {
        "name": "orders",
        "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "settings": {},
        "assignment": [[0]],
        "leader_epochs": [0],
    }
    return {**fields, **changes}


def metadata(*topics: object, **changes: object) -> bytes:
    """The file of the metadata."""
    fields = {"version": 1, "topics": list(topics), "created_count": 1, "next_producer_id": 0}
    return json.dumps({**fields, **changes}).encode()


METADATA = [
    b"",
    b"\n",
    b"{}",
    b"[]",
    b"null",
    b"1",
    b"{",
    b'{"version": 1}',
    metadata(version=0),
    metadata(version=2),
    metadata(version="1"),
    metadata(topics={}, version=None),
    metadata(topics=None),
    metadata(topics=1),
    metadata(1),
    metadata({}),
    metadata(topic(assignment=[])),
    metadata(topic(assignment=[[]])),
    metadata(topic(assignment=0)),
    metadata(topic(assignment=[["x"]])),
    metadata(topic(leader_epochs=[])),
    metadata(topic(leader_epochs=[0, 0])),
    metadata(topic(leader_epochs="x")),
    metadata(topic(settings=[])),
    metadata(topic(topic_id=5)),
    metadata(topic(topic_id="x")),
    metadata(topic(name="..")),
    metadata(topic(name="a/b")),
    metadata(topic(name="x" * 250)),
    metadata(topic(), topic()),
    metadata(created_count="x"),
    metadata(next_producer_id=None),
    b"[" * 100_000,
    bytes(64),
    b"\xff\xfe",
]


class Place:
    """A disk with the logs of one partition, closed or killed."""

    def __init__(self) -> None:
        """Make an empty disk."""
        self.disk = CrashDisk(0)

    def open(self) -> DurableLogs:
        """Start the broker's logs."""
        logs = DurableLogs(
            Storage(self.disk, (ROOT,)),
            cluster_id="test",
            node_id=0,
            clock=ManualClock(timestamp_ms=1_700_000_000_000),
            after=lambda *_: None,
            high_watermarks=dict,
        )
        if logs.open(lambda _: RULES) is None:
            logs.write_down(facts())
        return logs

    def load(self) -> PartitionLog:
        """Start, and give the log."""
        return self.open().log_of(PARTITION, TOPIC_ID)

    def put(self, path: str, content: bytes) -> None:
        """Give a file another content."""
        assert self.disk.exists(path), path
        self.disk.names[path] = File(content)

    def contents(self) -> dict[str, bytes | None]:
        """All files; None for a directory."""
        return {
            path: None if file is None else bytes(file.content)
            for path, file in self.disk.names.items()
            if not path.endswith(LOCK_FILE)
        }


def facts() -> ClusterFacts:
    """One topic."""
    topics = [
        TopicFacts(
            name="orders", topic_id=TOPIC_ID, settings={}, assignment=[[0]], leader_epochs=[0]
        )
    ]
    return ClusterFacts(topics=topics, created_count=1, next_producer_id=0)


def put(log: PartitionLog, content: bytes, epoch: int) -> None:
    """Append a batch as the partition does."""
    encoded = memoryview(bytearray(content))
    batch = next(read_batches(encoded))
    ended = log.producers.remember(batch, log.append(batch, encoded, leader_epoch=epoch))
    if ended is not None:
        log.note_ended(ended)


def filled(*, closes: bool) -> Place:
    """Several segments of one idempotent producer, two epochs, an aborted transaction."""
    place = Place()
    logs = place.open()
    log = logs.log_of(PARTITION, TOPIC_ID)
    log.rules = RULES
    for number in range(BATCHES):
        rows = [(number, b"k", b"value", ())]
        put(log, encode_batch(rows, producer_id=7, producer_epoch=0, base_sequence=number), 3)
    rows = [(BATCHES, b"k", b"value", ())]
    fields: BatchFields = {"producer_id": 8, "producer_epoch": 0, "base_sequence": 0}
    fields["is_transactional"] = True
    put(log, encode_batch(rows, **fields), 4)
    marker = EndMarker(ControlType.ABORT, 0)
    put(
        log,
        bytes(encode_marker_batch(marker, producer_id=8, producer_epoch=0, timestamp_ms=BATCHES)),
        4,
    )
    assert len(log.segments) > 2
    if closes:
        logs.close(facts())
    else:
        log.flush()
        logs.abandon()
    return place


def state_of(log: PartitionLog) -> object:
    """All that a client can see."""
    following = encode_batch(
        [(1, b"k", b"value", ())], producer_id=7, producer_epoch=0, base_sequence=BATCHES
    )
    return (
        [bytes(it.view) for it in log.batches()],
        log.log_start_offset,
        log.log_end_offset,
        log.epochs.encoded(),
        [tuple(entry) for segment in log.segments for entry in segment.aborted],
        log.producers.check(next(read_batches(following))),
    )


WANTED = state_of(filled(closes=True).load())
"""State of the log when nothing is malformed."""


@pytest.mark.parametrize("closes", [True, False])
@pytest.mark.parametrize("name", [RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS, CLEANED_OFFSETS])
def test_a_malformed_checkpoint_says_nothing(
    name: str, closes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It is reported by its path, and all records are there; Kafka's tool may have made it."""
    assert len(TABLES) >= 30
    path = f"{ROOT}/{name}"
    for content in TABLES:
        place = filled(closes=closes)
        if not place.disk.exists(path):
            place.disk.create(path)
        place.put(path, content)
        caplog.clear()
        assert state_of(place.load()) == WANTED, content
        if name != HIGH_WATERMARKS:  # written for Kafka, and not read
            assert f"{path} is ignored" in caplog.text, content


@pytest.mark.parametrize("closes", [True, False])
def test_malformed_leader_epochs_are_read_from_the_batches(
    closes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that the batches bear."""
    assert len(EPOCH_TABLES) >= 30
    for content in EPOCH_TABLES:
        place = filled(closes=closes)
        place.put(f"{ROOT}/orders-0/{EPOCH_FILE}", content)
        caplog.clear()
        assert state_of(place.load()) == WANTED, content
        assert EPOCH_FILE in caplog.text, content


def test_a_malformed_identity_is_rejected_before_anything_is_changed() -> None:
    """By its path."""
    assert len(IDENTITIES) >= 30
    rejects(IDENTITY_FILE, IDENTITIES, lambda name: f"{ROOT}/{name}" if name else ROOT)


def test_malformed_metadata_is_rejected_before_anything_is_changed() -> None:
    """By its path."""
    assert len(METADATA) >= 30
    rejects(METADATA_FILE, METADATA, lambda name: f"{ROOT}/{name}")


def rejects(name: str, contents: list[bytes], told: Callable[[str], str]) -> None:
    """Put each content into a file, and see that a start is rejected and changes nothing."""
    for content in contents:
        place = filled(closes=True)
        place.put(f"{ROOT}/{name}", content)
        before = place.contents()
        with pytest.raises(DirectoryRejected) as caught:
            place.open()
        text = str(caught.value)
        assert told(name) in text or f"{ROOT} is of cluster" in text, (content, text)
        assert place.contents() == before, content


def test_a_directory_that_does_not_say_whose_it_is_is_put_aside(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With all that is in it, and reported by its path."""
    assert len(OWNERS) >= 30
    for content in OWNERS:
        place = filled(closes=True)
        path = f"{ROOT}/orders-0"
        place.put(f"{path}/{PARTITION_FILE}", content)
        kept = {at: it for at, it in place.contents().items() if at.startswith(f"{path}/")}
        caplog.clear()
        log = place.load()
        assert log.log_end_offset == 0, content
        (aside,) = [it.name for it in place.disk.entries(ROOT) if it.name.endswith("-stray")]
        after = place.contents()
        for at, it in kept.items():
            assert after[at.replace(path, f"{ROOT}/{aside}")] == it
        assert aside in caplog.text


def damaged(content: bytes) -> list[bytes]:
    """Thirty ways in which a binary file may be wrong."""
    flips = [
        content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :]
        for at in range(0, len(content), max(len(content) // 12, 1))
    ]
    cuts = [content[:at] for at in range(1, len(content), max(len(content) // 10, 1))]
    others = [
        bytes(len(content)),
        bytes(8),
        content + bytes(1),
        content + content[:5],
        content[::-1],
        b"\xff" * len(content),
        b"x",
        bytes(4_096),
        content[1:],
        b"\0" + content,
    ]
    return [it for it in (*flips, *cuts, *others) if it != content]


@pytest.mark.parametrize("closes", [True, False])
def test_a_malformed_snapshot_is_passed_over(closes: bool) -> None:
    """Producers are known from the one before it, or from the batches."""
    names = [it for it in filled(closes=closes).contents() if it.endswith(".snapshot")]
    newest = max(names)
    contents = damaged(filled(closes=closes).contents()[newest] or b"")
    assert len(contents) >= 30
    for content in contents:
        place = filled(closes=closes)
        place.put(newest, content)
        assert state_of(place.load()) == WANTED, content


def test_a_malformed_transaction_index_is_built_again() -> None:
    """After a clean close, too: its segment is checked then."""
    (path,) = [it for it in filled(closes=True).contents() if it.endswith(".txnindex")]
    content = filled(closes=True).contents()[path] or b""
    contents = [it for it in damaged(content) if is_recognised(it)]
    assert len(contents) >= 20  # the entries have no checksum
    for wrong in contents:
        place = filled(closes=True)
        place.put(path, wrong)
        assert state_of(place.load()) == WANTED, wrong


def is_recognised(content: bytes) -> bool:
    """Whether an index of transactions can be seen to be wrong: by its length or its version."""
    return len(content) % 34 != 0 or content[:2] != bytes(2)
