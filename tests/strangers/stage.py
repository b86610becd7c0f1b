"""A group of members in processes of their own, on an embedded cluster that is watched.

Every member is a process, so that it can be killed and stalled. A thread looks at the group all
the time: in no generation may a partition have two owners, and generations only grow.

Thread-safety: the test's thread, but for what it says.
"""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from kprod import Producer
from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.broker.group.view import GroupView
from kprod.broker.rejection import Rejected
from kprod.clock import SystemClock
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.strangers.commits import Commits
from tests.strangers.watched import watch

GROUP, TOPIC, PARTITIONS = "readers", "orders", 4
LIMIT_S = 60.0
LIMIT_MS = int(1_000 * LIMIT_S)
ROUND = 20
"""Records of one load."""

Command = Callable[[str, str], list[str]]
"""The command line of a member with a name, for some bootstrap servers."""


class Place(NamedTuple):
    """A record's place."""

    partition: int
    offset: int


class Stranger:
    """One member's process, and the records that it says it has read."""

    def __init__(self, command: list[str], errors: Path) -> None:
        """Start it."""
        self._errors = errors.open("ab")
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        self.seen: set[Place] = set()
        self.findings: list[str] = []
        self._next: dict[int, int | None] | None = None  # by owned partition; None until it tells
        assert self._process.stdout is not None
        self._output = self._process.stdout
        self._reader = threading.Thread(target=self._read, args=(self._output,))
        self._reader.start()

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def end(self, number: signal.Signals) -> int:
        """Send a signal that ends it; returns the exit code."""
        self.send(number)
        try:
            code = self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            self._reader.join()
            self._output.close()
            self._errors.close()
        return code

    def _read(self, lines: Iterable[str]) -> None:
        for line in lines:
            numbers = [int(each) for each in re.findall(r"\d+", line)]
            if line.startswith(("assigned", "revoked")):
                self._change_hands(numbers, is_gained=line.startswith("assigned"))
            else:
                self._take(Place(*numbers[:2]))

    def _change_hands(self, partitions: list[int], *, is_gained: bool) -> None:
        """Note partitions that the member says it gets or gives up."""
        self._next = self._next or {}
        for partition in partitions:
            if is_gained:
                self._next[partition] = None
            else:
                self._next.pop(partition, None)

    def _take(self, place: Place) -> None:
        """Note a record; one of a partition that was given up, or out of order, is a finding."""
        self.seen.add(place)
        if self._next is None:
            return
        if place.partition not in self._next:
            self.findings.append(f"{place} after its partition was given up")
        elif self._next[place.partition] not in {None, place.offset}:
            self.findings.append(f"{place} instead of offset {self._next[place.partition]}")
        self._next[place.partition] = place.offset + 1


class Watch(threading.Thread):
    """Looks at the group until it is stopped.

    Attributes:
        findings: Everything that must not be.
        views: How many stable generations were looked at.
    """

    def __init__(self, cluster: EmbeddedCluster) -> None:
        """Look at nothing yet."""
        super().__init__()
        self.findings: list[str] = []
        self.views = 0
        self._cluster = cluster
        self._stopping = threading.Event()
        self._generation = 0

    def run(self) -> None:
        """Look every 10 ms."""
        while not self._stopping.wait(0.01):
            for view in self._cluster.groups():
                self._check(view)

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self.join()

    def _check(self, view: GroupView) -> None:
        if view.state != "Stable":
            return  # a generation is in the log only once it is Stable, so a move may take it back
        self.views += 1
        if view.generation < self._generation:
            self.findings.append(f"generation {view.generation} after {self._generation}")
        self._generation = view.generation
        owned = owned_by(view)
        if len(owned) != len(set(owned)):
            self.findings.append(f"two owners in a generation: {view}")


class Stage:
    """A cluster, a topic, and the group's members by name."""

    def __init__(
        self,
        command: Command,
        directory: Path,
        *,
        is_static: bool,
        steps_back: bool = False,
        partitions: int = PARTITIONS,
    ) -> None:
        """Open the cluster.

        Args:
            command: See `Command`.
            directory: For the logs of the cluster, and the members' errors.
            is_static: Whether members keep their place when they end.
            steps_back: Whether the client may commit a lower offset after a higher one.
            partitions: The topic's.
        """
        self._partitions = partitions
        self.cluster = _opened(directory, partitions)
        self.commits = Commits(self.cluster)
        self.joins: list[tuple[str | None, int]] = []  # instance and generation, accepted ones
        watch(self.cluster, ApiKey.JOIN_GROUP, self._note_join)
        self._steps_back = steps_back
        self.is_static = is_static
        self.members: dict[str, Stranger] = {}
        self.seen: set[Place] = set()
        self.expected: set[Place] = set()
        self.findings: list[str] = []
        self.watch = Watch(self.cluster)
        self.directory = directory
        self._command = command
        self._ended: list[Stranger] = []
        self._producer = Producer(bootstrap_servers=self.cluster.bootstrap_servers)
        self._sent = [0] * partitions
        self.watch.start()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End everything."""
        self.watch.stop()
        for member in self.members.values():
            member.end(signal.SIGKILL)
        self._producer.close()
        self.cluster.close()

    @property
    def view(self) -> GroupView | None:
        """The group, if there is one."""
        try:
            return self.cluster.group(GROUP)
        except Rejected:
            return None

    def start(self, name: str) -> None:
        """Start a member."""
        command = self._command(name, self.cluster.bootstrap_servers)
        self.members[name] = Stranger(command, self.directory / f"{name}.err")

    def end(self, name: str, number: signal.Signals) -> None:
        """End a member."""
        member = self.members.pop(name)
        self._ended.append(member)
        code = member.end(number)
        if number is signal.SIGTERM:
            unready = set() if member.seen else {-number}  # it waits for no signal yet
            assert code in {0, 143} | unready, self.errors(name)  # Java says 143

    def errors(self, name: str) -> str:
        """The end of a member's messages."""
        return (self.directory / f"{name}.err").read_text(errors="replace")[-3_000:]

    def load(self) -> None:
        """Write records, and wait until every record written so far was read by a member."""
        self.write()
        self.wait("every record is read", lambda: self.expected <= self._seen())

    def write(self) -> None:
        """Write records to all partitions."""
        for number in range(ROUND):
            partition = number % self._partitions
            self._producer.send(TOPIC, b"%d" % number, partition=partition)
            self.expected.add(Place(partition, self._sent[partition]))
            self._sent[partition] += 1
        assert self._producer.flush(LIMIT_S) == 0

    def settle(self, count: int) -> GroupView:
        """Wait until the group is Stable with that many members and all partitions are owned."""
        self.wait(f"{count} members share the partitions", lambda: self._is_shared(count))
        view = self.view
        assert view is not None
        return view

    def wait(self, text: str, condition: Callable[[], bool]) -> None:
        """Wait for a condition."""
        clock, pause = SystemClock(), threading.Event()
        until_ms = clock.now_ms() + LIMIT_MS
        while not condition():
            dead = [name for name, it in self.members.items() if not it.is_running]
            assert not dead, f"{dead[0]} has ended: {self.errors(dead[0])}"
            if clock.now_ms() > until_ms:
                told = {name: self.errors(name) for name in self.members}
                missing = sorted(self.expected - self._seen())[:5]
                raise AssertionError(f"not: {text}; {self.view}; unread: {missing}; {told}")
            pause.wait(0.02)

    def _note_join(self, request: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        if answer["error_code"] == ErrorCode.NONE:
            self.joins.append((request["group_instance_id"], answer["generation_id"]))

    def check(self) -> None:
        """The watch has found nothing, and the group has the commits that were acknowledged last.

        They are every partition's end, but for a client that steps back.
        """
        self._seen()
        findings = self.watch.findings + self.findings
        assert not findings, f"{len(findings)} findings, such as {findings[:5]}"
        assert self.watch.views > 0
        assert self.cluster.failures == ()
        assert self.committed() == self.commits.last
        if not self._steps_back:
            assert self.commits.steps_back == 0
            assert self.commits.last == dict(enumerate(self._sent))

    def committed(self) -> Mapping[int, int]:
        """Committed offsets by partition."""
        view = self.view
        return {} if view is None else {at.partition: it.offset for at, it in view.offsets.items()}

    def restart_cluster(self) -> None:
        """Close the cluster, and open another on its directory; there are no members."""
        self.watch.stop()
        self._producer.close()
        self.cluster.close()
        self.cluster = _opened(self.directory, self._partitions)
        self._producer = Producer(bootstrap_servers=self.cluster.bootstrap_servers)

    def _seen(self) -> set[Place]:
        for member in (*self.members.values(), *self._ended):
            self.seen |= member.seen.copy()
            self.findings += member.findings
            member.findings.clear()
        self._ended.clear()
        return self.seen

    def _is_shared(self, count: int) -> bool:
        view = self.view
        if view is None or view.state != "Stable" or len(view.members) != count:
            return False
        return sorted(owned_by(view)) == list(range(self._partitions))


def owned_by(view: GroupView) -> list[int]:
    """Every partition of every member."""
    return [index for member in view.members for index in (member.assignment or {}).get(TOPIC, [])]


def python_member(**wish: object) -> Command:
    """The command of a member of `member.py`.

    Args:
        wish: Its `client`, `assignor`, `is_auto`, `is_static` and `session_ms`.

    Returns:
        The command for a name.
    """

    def command(name: str, servers: str) -> list[str]:
        said = {
            **wish,
            "name": name,
            "servers": servers,
            "group": GROUP,
            "topic": TOPIC,
            "instance": name if wish["is_static"] else None,
        }
        return [sys.executable, "-m", "tests.strangers.member", json.dumps(said)]

    return command


def _opened(directory: Path, partitions: int) -> EmbeddedCluster:
    config = EmbeddedConfig(group_min_session_timeout_ms=1_000, offsets_topic_num_partitions=1)
    cluster = EmbeddedCluster(
        brokers=3, topics={TOPIC: partitions}, config=config, data_dir=directory / "logs"
    )
    cluster.start()
    return cluster
