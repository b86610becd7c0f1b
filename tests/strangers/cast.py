"""Members of a group in processes of their own, and the records that they say they have read.

Every member is a process, so that it can be killed and stalled.

Thread-safety: the test's thread, but for what it says.
"""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from kprod import Producer
from kprod.clock import SystemClock

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
        """Start it; a member of `member.py` is ready, and waits for `go`, when it has loaded."""
        self._errors = errors.open("ab")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        self.seen: set[Place] = set()
        self.findings: list[str] = []
        self.is_ready = threading.Event()
        self._next: dict[int, int | None] | None = None  # by owned partition; None until it tells
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._reader = threading.Thread(target=self._read, args=(self._output,))
        self._reader.start()

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process.poll() is None

    def go(self) -> None:
        """Let it connect."""
        self._input.write("go\n")
        self._input.flush()

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
            self._input.close()
            self._output.close()
            self._errors.close()
        return code

    def _read(self, lines: Iterable[str]) -> None:
        for line in lines:
            if line.startswith("ready"):
                self.is_ready.set()
                continue
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


class Cast:
    """The members of a group by name, and the records that are written for them.

    Attributes:
        members: Those that run.
        seen: The records that any member has said it has read.
        expected: The records that were written.
        findings: Everything that must not be.
        directory: For the members' errors.
        ends: The next offset of each partition.
    """

    def __init__(
        self, command: Command, directory: Path, bootstrap_servers: str, partitions: int
    ) -> None:
        """Start without members.

        Args:
            command: See `Command`.
            directory: For the members' errors.
            bootstrap_servers: The brokers'.
            partitions: The topic's.
        """
        self.members: dict[str, Stranger] = {}
        self.seen: set[Place] = set()
        self.expected: set[Place] = set()
        self.findings: list[str] = []
        self.directory = directory
        self.ends = [0] * partitions
        self._command = command
        self._servers = bootstrap_servers
        self._ended: list[Stranger] = []
        self._producer = Producer(bootstrap_servers=bootstrap_servers)

    def leave_stage(self) -> None:
        """End every member and the producer."""
        for member in self.members.values():
            member.end(signal.SIGKILL)
        self._producer.close()

    def use(self, bootstrap_servers: str) -> None:
        """Continue with other brokers, which have the same records; there are no members."""
        self._producer.close()
        self._servers = bootstrap_servers
        self._producer = Producer(bootstrap_servers=bootstrap_servers)

    def described(self) -> str:
        """Describe the group for an error's text."""
        return GROUP

    def start(self, name: str) -> None:
        """Start a member."""
        self.members[name] = self.loading(name)
        self.members[name].go()

    def loading(self, name: str) -> Stranger:
        """Start a member's program, which waits for `go` if it can."""
        command = self._command(name, self._servers)
        return Stranger(command, self.directory / f"{name}.err")

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
        self.wait("every record is read", lambda: self.expected <= self.read())

    def write(self) -> None:
        """Write records to all partitions."""
        for number in range(ROUND):
            partition = number % len(self.ends)
            self._producer.send(TOPIC, b"%d" % number, partition=partition)
            self.expected.add(Place(partition, self.ends[partition]))
            self.ends[partition] += 1
        assert self._producer.flush(LIMIT_S) == 0

    def wait(self, text: str, condition: Callable[[], bool]) -> None:
        """Wait for a condition."""
        clock, pause = SystemClock(), threading.Event()
        until_ms = clock.now_ms() + LIMIT_MS
        while not condition():
            dead = [name for name, it in self.members.items() if not it.is_running]
            assert not dead, f"{dead[0]} has ended: {self.errors(dead[0])}"
            if clock.now_ms() > until_ms:
                told = {name: self.errors(name) for name in self.members}
                missing = sorted(self.expected - self.read())[:5]
                raise AssertionError(f"not: {text}; {self.described()}; unread: {missing}; {told}")
            pause.wait(0.02)

    def read(self) -> set[Place]:
        """Return the records that were read so far, and take the members' findings."""
        for member in (*self.members.values(), *self._ended):
            self.seen |= member.seen.copy()
            self.findings += member.findings
            member.findings.clear()
        self._ended.clear()
        return self.seen


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
