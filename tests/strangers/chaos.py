"""Members of three clients are killed, stalled and added, and coordinators moved, for minutes.

    python -m tests.strangers.chaos --seconds 600 --seed 1
    python -m tests.strangers.chaos --kafka

The brokers are embedded ones, or three of Apache Kafka, which are killed.

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
from typing import TYPE_CHECKING, Protocol

from kprod.broker.internal_topics import OFFSETS_TOPIC
from kprod.clock import SystemClock
from tests.plugins.kafka import artifacts_or_reason
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_nodes import KafkaNodes
from tests.strangers.cast import TOPIC, Command, python_member
from tests.strangers.kafka_stage import SETTINGS, KafkaStage
from tests.strangers.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PARTITIONS, MEMBERS_MAX, SESSION_MS = 12, 6, 3_000
CLIENTS = ("kprod", "kprod", "confluent", "aiokafka")
STALL_S = (1.0, 5.0)  # shorter and longer than a session
PAUSE_S = (0.5, 2.0)  # between two accidents
BROKERS = 3
_SHARE = 0.6
"""Of kills that strike the coordinator."""


class Brokers(Protocol):
    """The accidents of the brokers."""

    def kinds(self) -> "Sequence[Callable[[], object]]":
        """Return the kinds of accidents."""

    def heal(self) -> None:
        """End them."""


class EmbeddedBrokers:
    """Accidents of embedded brokers.

    Args:
        stage: The stage.
        rng: Draws the accidents.
    """

    def __init__(self, stage: Stage, rng: random.Random) -> None:
        self._stage = stage
        self._rng = rng
        self._stopped: int | None = None

    def kinds(self) -> "Sequence[Callable[[], object]]":
        """Return the kinds of accidents."""
        return self.move, self.stop

    def move(self) -> None:
        """Let another broker coordinate."""
        view = self._stage.view
        others = [it for it in range(BROKERS) if it != self._stopped]
        if view is not None and view.coordinator in others:
            others.remove(view.coordinator)
            self._stage.cluster.move_coordinator(view.group_id, to=self._rng.choice(others))

    def stop(self) -> None:
        """Stop a broker, with the leaders and coordinators on it; the next time, start it."""
        if self._stopped is None:
            self._stopped = self._rng.randrange(BROKERS)
            self._stage.cluster.stop_broker(self._stopped)
        else:
            self.heal()

    def heal(self) -> None:
        """Start the broker that is stopped."""
        if self._stopped is not None:
            self._stage.cluster.start_broker(self._stopped)
            self._stopped = None


class KafkaBrokers:
    """Accidents of brokers of Apache Kafka.

    Args:
        stage: The stage.
        rng: Draws the accidents.
    """

    def __init__(self, stage: KafkaStage, rng: random.Random) -> None:
        self._stage = stage
        self._rng = rng
        self._killed: int | None = None

    def kinds(self) -> "Sequence[Callable[[], object]]":
        """Return the kinds of accidents."""
        return (self.crash,)

    def crash(self) -> None:
        """Kill a broker, mostly the group's coordinator; the next time, start it again."""
        nodes = self._stage.nodes
        if self._killed is not None:
            self.heal()
            return
        nodes.wait_in_sync(TOPIC, OFFSETS_TOPIC)  # else Kafka itself would lose records
        found = self._stage.description()
        ids = nodes.broker_ids
        if found is not None and found.coordinator.node_id in ids and self._rng.random() < _SHARE:
            self._killed = found.coordinator.node_id
        else:
            self._killed = self._rng.choice(ids)
        nodes.kill(self._killed)

    def heal(self) -> None:
        """Start the broker that was killed."""
        if self._killed is not None:
            self._stage.nodes.restart(self._killed)
            self._killed = None


class Chaos:
    """Accidents of one group, drawn from a seed.

    Attributes:
        done: How often each kind of accident has happened.
    """

    def __init__(self, stage: Stage | KafkaStage, brokers: Brokers, rng: random.Random) -> None:
        """Start with two members.

        Args:
            stage: A stage with `mixed` as its command.
            brokers: The accidents of its brokers.
            rng: Draws the accidents.
        """
        self.done: Counter[str] = Counter()
        self._stage = stage
        self._brokers = brokers
        self._rng = rng
        self._number = 0
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
        kinds = [self._kill, self._stall, self._add, self._leave, *self._brokers.kinds()]
        while clock.now_ms() < until_ms:
            self._stage.write()
            kind = self._rng.choice(kinds)
            kind()
            self.done[kind.__name__.removeprefix("_")] += 1
            self._pause.wait(self._rng.uniform(*PAUSE_S))
        self._brokers.heal()
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
    rng = random.Random(seed)
    with Stage(mixed, directory, is_static=False, partitions=PARTITIONS) as stage:
        chaos = Chaos(stage, EmbeddedBrokers(stage, rng), rng)
        chaos.run(seconds)
        return chaos.done


def run_on_kafka(artifacts: Artifacts, directory: Path, seconds: float, seed: int) -> Counter[str]:
    """Cause accidents in a group on three brokers of Apache Kafka; otherwise as `run`.

    Args:
        artifacts: Kafka's programs.
        directory: For the members' errors.
        seconds: Duration of the accidents.
        seed: Determines the accidents.

    Returns:
        How often each kind of accident has happened.
    """
    rng = random.Random(seed)
    with (
        KafkaNodes(artifacts, brokers=BROKERS, settings=SETTINGS) as nodes,
        KafkaStage(mixed, nodes, directory, PARTITIONS) as stage,
    ):
        chaos = Chaos(stage, KafkaBrokers(stage, rng), rng)
        chaos.run(seconds)
        return chaos.done


def main() -> None:
    """Run as the arguments say; prints the number of accidents."""
    parser = argparse.ArgumentParser(prog="python -m tests.strangers.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kafka", action="store_true")
    given = parser.parse_args()
    found = artifacts_or_reason() if given.kafka else ""
    if given.kafka and isinstance(found, str):
        sys.exit(found)
    with tempfile.TemporaryDirectory(prefix="kprod-groups-") as directory:
        if isinstance(found, str):
            done = run(Path(directory), given.seconds, given.seed)
        else:
            done = run_on_kafka(found, Path(directory), given.seconds, given.seed)
    sys.stdout.write(f"every promise was kept; accidents: {dict(done)}\n")


if __name__ == "__main__":
    main()
