"""A group of members on three brokers of Apache Kafka, which a thread watches.

It looks at the group again and again: at one time no partition has two owners, committed offsets
only grow, and each record below one was read by a member.

Thread-safety: the test's thread, but for what it says.
"""

import logging
import threading
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from kprod.admin.group_admin import GroupAdmin
from kprod.admin.group_values import GroupDescription
from kprod.clock import SystemClock
from kprod.config import ClientConfig
from kprod.config.address import parse_addresses
from kprod.errors import KprodError
from kprod.network.admin_client import AdminClient
from tests.plugins.kafka_nodes import KafkaNodes
from tests.strangers.cast import GROUP, TOPIC, Cast, Command, Place

SETTINGS = {"group.min.session.timeout.ms": "1000", "offsets.topic.num.partitions": "3"}
"""Those of the brokers, besides what all tests use."""
LOOK_S = 0.3
TELL_MS = 2_000
"""Time in which a member's output has arrived."""
TIMEOUT_MS = 3_000


class Look(NamedTuple):
    """One look at the committed offsets.

    Attributes:
        at_ms: Its time.
        offsets: Committed offsets by partition.
    """

    at_ms: int
    offsets: dict[int, int]


class KafkaStage(Cast):
    """A topic, and the group's members by name.

    Attributes:
        looks: How many stable groups were looked at.
    """

    def __init__(
        self, command: Command, nodes: KafkaNodes, directory: Path, partitions: int
    ) -> None:
        """Make the topic, and start to watch.

        Args:
            command: See `Command`.
            nodes: Three brokers that run.
            directory: For the members' errors.
            partitions: The topic's.
        """
        nodes.create_topic(
            TOPIC, partitions=partitions, replication=3, settings={"min.insync.replicas": "2"}
        )
        super().__init__(command, directory, nodes.bootstrap_servers, partitions)
        self.nodes = nodes
        self.looks = 0
        self._clock = SystemClock()
        self._last: dict[int, int] = {}
        self._older: deque[Look] = deque()
        self._stopping = threading.Event()
        self._watch = threading.Thread(target=self._look_on)
        self._watch.start()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End everything but the brokers."""
        self._stopping.set()
        self._watch.join()
        self.leave_stage()

    def description(self) -> GroupDescription | None:
        """Return the group as its coordinator describes it; None while there is none."""
        try:
            with self._admin() as admin:
                return GroupAdmin(admin).describe(GROUP)
        except KprodError:
            return None

    def described(self) -> str:
        """Describe the group for an error's text."""
        return f"{self.description()}, {self.committed()}"

    def committed(self) -> dict[int, int]:
        """Return committed offsets by partition; empty while there is no coordinator."""
        try:
            with self._admin() as admin:
                found = GroupAdmin(admin).committed(GROUP)
        except KprodError:
            return {}
        return {place.partition: it.offset for place, it in found.items()}

    def settle(self, count: int) -> None:
        """Wait until the group is Stable with that many members and all partitions are owned."""
        self.wait(f"{count} members share the partitions", lambda: self._is_shared(count))

    def check(self) -> None:
        """Nothing was found, and every partition is committed to its end."""
        ends = dict(enumerate(self.ends))
        self.wait("everything is committed", lambda: self.committed() == ends)
        self.read()
        assert not self.findings, f"{len(self.findings)} findings, such as {self.findings[:5]}"
        assert self.looks > 0

    def _admin(self) -> AdminClient:
        addresses = parse_addresses(self.nodes.bootstrap_servers)
        return AdminClient(ClientConfig(bootstrap_servers=addresses), timeout_ms=TIMEOUT_MS)

    def _look_on(self) -> None:
        logging.getLogger("kprod").setLevel(logging.ERROR)  # brokers are down again and again
        while not self._stopping.wait(LOOK_S):
            found = self.description()
            if found is not None and found.state == "Stable":
                self.looks += 1
                owned = _owned_by(found)
                if len(owned) != len(set(owned)):
                    self.findings.append(f"two owners: {found}")
            self._take(Look(self._clock.now_ms(), self.committed()))

    def _take(self, look: Look) -> None:
        """Compare with the look before; older ones with the records that were read since."""
        for partition, offset in look.offsets.items():
            if offset < self._last.get(partition, 0):
                text = f"{offset} after {self._last[partition]}"
                self.findings.append(f"partition {partition} is committed at {text}")
            self._last[partition] = offset
        self._older.append(look)
        while self._older and self._older[0].at_ms < look.at_ms - TELL_MS:
            for partition, offset in self._older.popleft().offsets.items():
                self._check_read(partition, offset)

    def _check_read(self, partition: int, offset: int) -> None:
        read = set(self.seen)
        for member in (*list(self.members.values()), *self._ended):
            read |= member.seen.copy()
        unread = {Place(partition, at) for at in range(offset)} - read
        if unread:
            text = f"{min(unread)} lies before the committed offset {offset}"
            self.findings.append(f"{text}, and nobody has read it")

    def _is_shared(self, count: int) -> bool:
        found = self.description()
        if found is None or found.state != "Stable" or len(found.members or ()) != count:
            return False
        return sorted(_owned_by(found)) == list(range(len(self.ends)))


def _owned_by(found: GroupDescription) -> list[int]:
    """Every partition of every member."""
    members = found.members or ()
    return [place.partition for member in members for place in member.assignment or ()]
