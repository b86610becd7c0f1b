"""Java's console consumer as a member of a mixed group.

It prints the records; what it owns is what the coordinator says, since it prints that nowhere.
"""

import re
import signal
import subprocess
import threading
from collections.abc import Iterable

from kprod.admin.group_admin import GroupAdmin
from kprod.config import ClientConfig
from kprod.config.address import parse_addresses
from kprod.errors import KprodError
from kprod.network.admin_client import AdminClient
from tests.consumer.group.mixed import (
    PARTITIONS,
    ConfluentMember,
    KafkaPythonMember,
    KprodMember,
    Member,
    Place,
    fill,
    poll_until,
)
from tests.plugins.kafka_tools import KafkaTools

STRATEGIES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
"""Java's names."""
_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_CLIENT_ID = "java"
_LIMIT_S = 60.0


class JavaMember:
    """Java's, in a process.

    Thread-safety: one thread; another one reads the output.
    """

    def __init__(
        self, servers: str, group: str, topic: str, strategy: str, *, tools: KafkaTools
    ) -> None:
        """Start it."""
        self._servers, self._group = servers, group
        settings = {
            "client.id": _CLIENT_ID,
            "group.protocol": "classic",
            "heartbeat.interval.ms": 200,
            "auto.commit.interval.ms": 200,
            "partition.assignment.strategy": (
                f"org.apache.kafka.clients.consumer.{STRATEGIES[strategy]}"
            ),
        }
        said = ["--bootstrap-server", servers, "--topic", topic, "--group", group]
        for key, value in settings.items():
            said += ["--command-property", f"{key}={value}"]
        for key in ("print.partition=true", "print.offset=true", "print.value=false"):
            said += ["--formatter-property", key]
        self._process = subprocess.Popen(
            [*tools.java(log=None), _CONSUMER, "--from-beginning", *said],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self._output = self._process.stdout
        self._places: list[Place] = []
        self._reader = threading.Thread(target=self._read, args=(self._output,))
        self._reader.start()

    def poll(self) -> list[Place]:
        """Return partition and offset of some records."""
        assert self._process.poll() is None, "the console consumer has ended"
        count = len(self._places)
        found, self._places[:count] = self._places[:count], []
        return found

    def owned(self) -> list[int]:
        """Return the assigned partitions, of a group that is Stable."""
        config = ClientConfig(bootstrap_servers=parse_addresses(self._servers))
        try:
            with AdminClient(config, timeout_ms=5_000) as admin:
                found = GroupAdmin(admin).describe(self._group)
        except KprodError:
            return []
        mine = [it for it in found.members or () if it.client_id == _CLIENT_ID]
        return [place.partition for it in mine for place in it.assignment or ()]

    def close(self) -> None:
        """Leave."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_LIMIT_S)
        finally:
            self._process.kill()
            self._reader.join()
            self._output.close()

    def _read(self, lines: Iterable[str]) -> None:
        for line in lines:
            partition, offset = map(int, re.findall(r"\d+", line)[:2])
            self._places.append((partition, offset))


def share_among_three(
    servers: str, topic: str, strategy: str, *, kprod_leads: bool, tools: KafkaTools
) -> list[Place]:
    """Let kprod, another Python client and Java share a topic; then the leader leaves.

    Every record is read by one of them, or this raises.

    Returns:
        Partition and offset of each record that kprod has read.
    """
    group = f"{topic}-group"
    peer = KafkaPythonMember if strategy == "sticky" else ConfluentMember
    members: list[Member] = []
    seen: list[list[Place]] = []

    def join(kind: str) -> None:
        made: Member
        if kind == "java":
            made = JavaMember(servers, group, topic, strategy, tools=tools)
        else:
            made = (KprodMember if kind == "kprod" else peer)(servers, group, topic, strategy)
        members.append(made)
        seen.append([])

    def is_shared() -> bool:
        shares = [each.owned() for each in members]
        owned = sorted(number for share in shares for number in share)
        return owned == list(range(PARTITIONS)) and all(shares)

    def all_read(count: int) -> bool:
        every = {(number, offset) for number in range(PARTITIONS) for offset in range(count)}
        return every <= {place for each in (*seen, left) for place in each}

    left: list[Place] = []
    fill(servers, topic, 10)
    try:
        for kind in ("kprod", "java", "peer") if kprod_leads else ("java", "kprod", "peer"):
            join(kind)
            poll_until(members, is_shared, seen)
        fill(servers, topic, 10)
        poll_until(members, lambda: all_read(20), seen)
        kprod_read = seen[0 if kprod_leads else 1]
        members.pop(0).close()
        left += seen.pop(0)
        poll_until(members, is_shared, seen)
        fill(servers, topic, 5)
        poll_until(members, lambda: all_read(25), seen)
    finally:
        for each in members:
            each.close()
    return kprod_read
