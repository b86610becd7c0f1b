"""A group of members in processes of their own, on an embedded cluster that is watched.

Every member is a process, so that it can be killed and stalled. A thread looks at the group all
the time: in no generation may a partition have two owners, and generations only grow.

Thread-safety: the test's thread, but for what it says.
"""

import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.broker.group.view import GroupView
from kprod.broker.rejection import Rejected
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.strangers.cast import GROUP, PARTITIONS, TOPIC, Cast, Command
from tests.strangers.commits import Commits
from tests.strangers.watched import watch

LOOK_S = 0.01


class Join(NamedTuple):
    """A join that was accepted.

    Attributes:
        instance: The member's instance id.
        generation: The generation of the response.
        is_new: Whether the member had no id yet.
    """

    instance: str | None
    generation: int
    is_new: bool


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
        while not self._stopping.wait(LOOK_S):
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


class Stage(Cast):
    """A cluster, a topic, and the group's members by name."""

    def __init__(
        self,
        command: Command,
        directory: Path,
        *,
        is_static: bool,
        waits: bool = True,
        steps_back: bool = False,
        partitions: int = PARTITIONS,
    ) -> None:
        """Open the cluster.

        Args:
            command: See `Command`.
            directory: For the logs of the cluster, and the members' errors.
            is_static: Whether members keep their place when they end.
            waits: Whether a member waits for `go` when it is ready.
            steps_back: Whether the client may commit a lower offset after a higher one.
            partitions: The topic's.
        """
        self._partitions = partitions
        self.cluster = _opened(directory, partitions)
        self.commits = Commits(self.cluster)
        self.joins: list[Join] = []
        watch(self.cluster, ApiKey.JOIN_GROUP, self._note_join)
        super().__init__(command, directory, self.cluster.bootstrap_servers, partitions)
        self._steps_back = steps_back
        self.is_static = is_static
        self._waits = waits
        self.watch = Watch(self.cluster)
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
        self.leave_stage()
        self.cluster.close()

    @property
    def view(self) -> GroupView | None:
        """The group, if there is one."""
        try:
            return self.cluster.group(GROUP)
        except Rejected:
            return None

    def replace(self, name: str) -> None:
        """Kill a member, and start it again; how long its program loads plays no part."""
        if not self._waits:
            self.end(name, signal.SIGKILL)
            self.start(name)
            return
        other = self.loading(name)
        try:
            self.wait("the next member is ready", other.is_ready.is_set)
        finally:
            self.end(name, signal.SIGKILL)
            self.members[name] = other
        other.go()

    def described(self) -> str:
        """Describe the group for an error's text."""
        return str(self.view)

    def settle(self, count: int) -> GroupView:
        """Wait until the group is Stable with that many members and all partitions are owned."""
        self.wait(f"{count} members share the partitions", lambda: self._is_shared(count))
        view = self.view
        assert view is not None
        return view

    def _note_join(self, request: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        if answer["error_code"] == ErrorCode.NONE:
            self.joins.append(
                Join(
                    request["group_instance_id"],
                    answer["generation_id"],
                    is_new=not request["member_id"],
                )
            )

    def check(self) -> None:
        """The watch has found nothing, and the group has the commits that were acknowledged last.

        They are every partition's end, but for a client that steps back.
        """
        self.read()
        findings = self.watch.findings + self.findings
        assert not findings, f"{len(findings)} findings, such as {findings[:5]}"
        assert self.watch.views > 0
        assert self.cluster.failures == ()
        assert self.committed() == self.commits.last
        if not self._steps_back:
            assert self.commits.steps_back == 0
            assert self.commits.last == dict(enumerate(self.ends))

    def committed(self) -> Mapping[int, int]:
        """Committed offsets by partition."""
        view = self.view
        return {} if view is None else {at.partition: it.offset for at, it in view.offsets.items()}

    def restart_cluster(self) -> None:
        """Close the cluster, and open another on its directory; there are no members."""
        self.watch.stop()
        self.cluster.close()
        self.cluster = _opened(self.directory, self._partitions)
        self.use(self.cluster.bootstrap_servers)

    def _is_shared(self, count: int) -> bool:
        view = self.view
        if view is None or view.state != "Stable" or len(view.members) != count:
            return False
        return sorted(owned_by(view)) == list(range(self._partitions))


def owned_by(view: GroupView) -> list[int]:
    """Every partition of every member."""
    return [index for member in view.members for index in (member.assignment or {}).get(TOPIC, [])]


def _opened(directory: Path, partitions: int) -> EmbeddedCluster:
    config = EmbeddedConfig(group_min_session_timeout_ms=1_000, offsets_topic_num_partitions=1)
    cluster = EmbeddedCluster(
        brokers=3, topics={TOPIC: partitions}, config=config, data_dir=directory / "logs"
    )
    cluster.start()
    return cluster
