"""Whether a partition takes records after the faults."""

from typing import TYPE_CHECKING

from tests.sim.client import Client
from tests.sim.workload import send_one

if TYPE_CHECKING:
    from tests.sim.oracle import Sent
    from tests.sim.world import World


class Probe:
    """Asks, after the calm, whether a partition takes a producer's records."""

    def __init__(self, place: int, topic: str, partition: int) -> None:
        self._place = place
        self._topic = topic
        self._partition = partition
        self._records: list[Sent] = []

    def client(self, world: "World") -> Client:
        """Return the producer that is at the place now."""
        return world.clients[self._place]

    def try_again(self, world: "World") -> None:
        """Send a fresh record."""
        client = self.client(world)
        known = len(client.records)
        entry = {"topic": self._topic, "partition": self._partition, "size": 16, "observers": 1}
        send_one(world, client, entry)
        self._records += client.records[known:]

    def is_acknowledged(self, world: "World") -> bool:
        """Return whether one of the records was acknowledged."""
        outcomes = map(world.ledger.ask, self._records)
        return any(outcome is not None and not outcome.error for outcome in outcomes)

    def describe(self, world: "World") -> str:
        """Say what became of the records."""
        outcomes = [(record.name, world.ledger.ask(record)) for record in self._records]
        where = f"{self._topic}-{self._partition} from sim-{self.client(world).number}"
        return f"{where}: after the calm nothing was acknowledged: {outcomes[-3:]}"
