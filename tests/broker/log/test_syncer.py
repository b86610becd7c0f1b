"""Background syncs: order, failures, waiting, giving up; and a log over them."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kprod.broker.log.directory_store import DirectoryStore
from kprod.broker.log.file_pool import FilePool
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.log.syncer import JOBS_WAITING_MAX, ThreadSyncer
from kprod.broker.log.system_disk import SystemDisk
from kprod.record.reader import read_batches
from tests.oracle.record_v2 import encode_batch

PATIENCE_S = 30


class Gate:
    """Something to sync that waits until it may, and perhaps fails."""

    def __init__(self, notes: list[str], name: str, error: OSError | None = None) -> None:
        """Make it closed."""
        self.opened = threading.Event()
        self._notes, self._name, self._error = notes, name, error

    def run(self) -> None:
        """Wait, then note it or fail."""
        assert self.opened.wait(PATIENCE_S)
        if self._error is not None:
            raise self._error
        self._notes.append(self._name)

    def discard(self) -> None:
        """Note it."""
        self._notes.append(f"{self._name} discarded")


@pytest.fixture
def woken() -> threading.Event:
    """Set by the syncer's thread."""
    return threading.Event()


@pytest.fixture
def syncer(woken: threading.Event) -> Iterator[ThreadSyncer]:
    """One that is closed at the end."""
    syncer = ThreadSyncer()
    syncer.start(woken.set)
    yield syncer
    syncer.close()


def soon(action: Callable[[], object]) -> None:
    """Do something on another thread, a moment later."""

    def run() -> None:
        threading.Event().wait(0.05)
        action()

    threading.Thread(target=run).start()


def opened(gate: Gate) -> Gate:
    """Let a gate through."""
    gate.opened.set()
    return gate


def test_done_is_called_on_the_callers_thread_in_a_later_step(
    syncer: ThreadSyncer, woken: threading.Event
) -> None:
    """The broker is woken; `deliver` calls `done`."""
    notes: list[str] = []
    ended: list[tuple[OSError | None, int]] = []
    gates = [Gate(notes, "first"), Gate(notes, "second")]
    syncer.submit(gates, lambda error: ended.append((error, threading.get_ident())))
    syncer.deliver()
    assert not ended
    for gate in gates:
        gate.opened.set()
    assert woken.wait(PATIENCE_S)
    syncer.deliver()

    assert notes == ["first", "second"]
    assert ended == [(None, threading.get_ident())]


def test_the_first_failure_ends_its_job_and_no_other(syncer: ThreadSyncer) -> None:
    """The later files of the job are closed without a sync."""
    notes: list[str] = []
    ended: list[OSError | None] = []
    failure = OSError(5, "input/output error")
    syncer.submit(
        [opened(Gate(notes, "bad", failure)), opened(Gate(notes, "behind"))], ended.append
    )
    syncer.submit([opened(Gate(notes, "other"))], ended.append)
    syncer.wait()

    assert notes == ["behind discarded", "other"]
    assert ended == [failure, None]


def test_jobs_given_up_are_let_go_and_not_told(syncer: ThreadSyncer) -> None:
    """`close` waits for the one that runs."""
    notes: list[str] = []
    ended: list[OSError | None] = []
    running = Gate(notes, "running")
    syncer.submit([running], ended.append)
    syncer.submit([Gate(notes, "waiting")], ended.append)
    soon(running.opened.set)
    syncer.close()

    assert sorted(notes) in (
        ["running", "waiting discarded"],
        ["running discarded", "waiting discarded"],  # it was closed before the thread took it
    )
    assert not ended


def test_a_syncer_with_many_jobs_lets_the_caller_wait(syncer: ThreadSyncer) -> None:
    """So that the descriptors that they hold are bounded."""
    notes: list[str] = []
    first = Gate(notes, "0")
    syncer.submit([first], lambda _: None)
    names = [str(number) for number in range(1, JOBS_WAITING_MAX + 3)]

    def submit_all() -> None:
        for name in names:
            syncer.submit([opened(Gate(notes, name))], lambda _: None)

    caller = threading.Thread(target=submit_all)
    caller.start()
    caller.join(0.1)
    assert caller.is_alive()
    first.opened.set()
    caller.join(PATIENCE_S)
    syncer.wait()
    assert notes == ["0", *names]


class Rig:
    """A log in a directory whose syncs wait until they may run."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make it; one batch of about 70 bytes fills a segment."""
        self.may_sync = threading.Event()
        self.error: OSError | None = None
        sync = os.fsync

        def held(descriptor: int) -> None:
            if threading.current_thread().name == "kprod-sync":
                assert self.may_sync.wait(PATIENCE_S)
                if self.error is not None:
                    raise self.error
            sync(descriptor)

        monkeypatch.setattr("kprod.broker.log.system_disk.os.fsync", held)
        self.syncer = ThreadSyncer()
        self.disk = SystemDisk(FilePool())
        store = DirectoryStore(self.disk, str(directory), self.syncer)
        self.log = PartitionLog(store, rules=SegmentRules(segment_bytes=100))

    def append(self) -> None:
        """Append a batch of one record, in a segment of its own."""
        encoded = memoryview(bytearray(encode_batch([(1, b"k", b"value", ())])))
        self.log.append(next(read_batches(encoded)), encoded, leader_epoch=0)


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """One whose syncer is closed at the end."""
    rig = Rig(tmp_path, monkeypatch)
    yield rig
    rig.may_sync.set()
    rig.syncer.close()
    rig.disk.close()


def test_a_roll_does_not_wait_and_moves_the_recovery_point_when_it_is_synced(rig: Rig) -> None:
    """Appends and reads continue meanwhile."""
    for _ in range(3):
        rig.append()
    assert rig.log.recovery_point == 0
    rig.may_sync.set()
    rig.syncer.wait()

    assert rig.log.recovery_point == 2
    assert rig.log.log_end_offset == 3


def test_a_flush_waits_for_the_syncs_in_the_background(rig: Rig) -> None:
    """It would report success for a file whose error another one was told of."""
    for _ in range(2):
        rig.append()
    rig.error = OSError(5, "input/output error")
    soon(rig.may_sync.set)
    with pytest.raises(OSError, match="an earlier sync failed"):
        rig.log.flush()
    assert rig.log.recovery_point == 0


def test_a_log_cut_meanwhile_is_not_said_to_be_synced(rig: Rig) -> None:
    """Other batches may have come below the offset that was synced."""
    for _ in range(3):
        rig.append()
    rig.log.truncate_to(1)
    for _ in range(3):
        rig.append()
    end_of_synced = rig.log.segments[-1].base_offset
    rig.may_sync.set()
    rig.syncer.wait()
    assert rig.log.recovery_point == end_of_synced == 3
