"""Members of three clients are killed, stalled and added, and coordinators moved, for minutes.

    python -m tests.strangers.chaos --seconds 600 --seed 1

Records are written all the time. In no generation has a partition two owners; kprod's members get
each partition's records in order, and none after they gave the partition up; when the accidents
end, the group is stable, every record was read, and every partition is committed to its end.

Source: invariants C1, C3, C4 and C6 of a consumer group.
"""

import argparse
import random
import signal
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

from kprod.clock import SystemClock
from tests.strangers.stage import Command, Stage, python_member

PARTITIONS, MEMBERS_MAX, SESSION_MS = 12, 6, 3_000
CLIENTS = ("kprod", "kprod", "confluent", "aiokafka")
STALL_S = (1.0, 5.0)  # shorter and longer than a session
PAUSE_S = (0.5, 2.0)  # between two accidents
BROKERS = 3


class Chaos:
    """Accidents of one group, drawn from a seed.

    Attributes:
        done: How often each kind of accident has happened.
    """

    def __init__(self, stage: Stage, rng: random.Random) -> None:
        """Start with two members.

        Args:
            stage: A stage with `mixed` as its command.
            rng: Draws the accidents.
        """
        self.done: Counter[str] = Counter()
        self._stage = stage
        self._rng = rng
        self._number = 0
        self._stopped: int | None = None
        self._pause = threading.Event()
        for _ in range(2):
            self._add()

    def run(self, seconds: float) -> None:
        """Cause accidents, then end them all and wait until the group has read everything.

        Args:
            seconds: Duration of the accidents.
        """
        clock = SystemClock()
        until_ms = clock.now_ms() + round(seconds * 1_000)
        kinds = [self._kill, self._stall, self._add, self._leave, self._move, self._stop]
        while clock.now_ms() < until_ms:
            self._stage.write()
            kind = self._rng.choice(kinds)
            kind()
            self.done[kind.__name__.removeprefix("_")] += 1
            self._pause.wait(self._rng.uniform(*PAUSE_S))
        self._start_broker()
        if not self._stage.members:
            self._add()
        self._stage.load()
        self._stage.settle(len(self._stage.members))
        self._stage.check()

    def _add(self) -> None:
        if len(self._stage.members) < MEMBERS_MAX:
            self._number += 1
            self._stage.start(f"{CLIENTS[self._number % len(CLIENTS)]}-{self._number}")

    def _kill(self) -> None:
        if self._stage.members:
            self._stage.end(self._any(), signal.SIGKILL)
        self._add()

    def _leave(self) -> None:
        if len(self._stage.members) > 1:
            self._stage.end(self._any(), signal.SIGTERM)

    def _stall(self) -> None:
        if self._stage.members:
            member = self._stage.members[self._any()]
            member.send(signal.SIGSTOP)
            self._pause.wait(self._rng.uniform(*STALL_S))
            member.send(signal.SIGCONT)

    def _move(self) -> None:
        view = self._stage.view
        others = [it for it in range(BROKERS) if it != self._stopped]
        if view is not None and view.coordinator in others:
            others.remove(view.coordinator)
            self._stage.cluster.move_coordinator(view.group_id, to=self._rng.choice(others))

    def _stop(self) -> None:
        """Stop a broker, with the leaders and coordinators on it; the next time, start it."""
        if self._stopped is None:
            self._stopped = self._rng.randrange(BROKERS)
            self._stage.cluster.stop_broker(self._stopped)
        else:
            self._start_broker()

    def _start_broker(self) -> None:
        if self._stopped is not None:
            self._stage.cluster.start_broker(self._stopped)
            self._stopped = None

    def _any(self) -> str:
        return self._rng.choice(sorted(self._stage.members))


def mixed(name: str, servers: str) -> list[str]:
    """The command of a member whose name begins with its client's."""
    client, _, _ = name.rpartition("-")
    command: Command = python_member(
        client=client, assignor="range", is_auto=False, is_static=False, session_ms=SESSION_MS
    )
    return command(name, servers)


def run(directory: Path, seconds: float, seed: int) -> Counter[str]:
    """Cause accidents in a new group; raises AssertionError for a broken promise.

    Args:
        directory: For the logs of the cluster, and the members' errors.
        seconds: Duration of the accidents.
        seed: Determines the accidents.

    Returns:
        How often each kind of accident has happened.
    """
    with Stage(mixed, directory, is_static=False, partitions=PARTITIONS) as stage:
        chaos = Chaos(stage, random.Random(seed))
        chaos.run(seconds)
        return chaos.done


def main() -> None:
    """Run as the arguments say; prints the number of accidents."""
    parser = argparse.ArgumentParser(prog="python -m tests.strangers.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kprod-groups-") as directory:
        done = run(Path(directory), given.seconds, given.seed)
    sys.stdout.write(f"every promise was kept; accidents: {dict(done)}\n")


if __name__ == "__main__":
    main()
