"""The application's knowledge of each record: accepted or rejected, and its outcome by observer."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.sim.oracle import NOT_PERSISTED, Outcome, Sent
from tests.sim.scheduler import MS

if TYPE_CHECKING:
    from tests.sim.client import Client
    from tests.sim.world import World

SHRINKING = frozenset(
    {"remake_topic", "reject_then_lose", "stale_metadata", "forget_topic", "error_metadata"}
)
"""Faults after which a partition may be unknown for a while."""


class Ledger:
    """The records of one run.

    Args:
        world: World of the run.

    Attributes:
        sent: Accepted records, in order.
        told: Records of which an observer was told, in order.
    """

    def __init__(self, world: "World") -> None:
        self.sent: list[Sent] = []
        self.told: list[Sent] = []
        self._world = world
        self._askers: dict[bytes, Callable[[], Outcome | None]] = {}
        self._ended: set[bytes] = set()  # only asked whether a name is in it

    def accept(
        self, record: Sent, ask: Callable[[], Outcome | None], began_ns: int | None = None
    ) -> None:
        """Note a record that `send` took.

        Args:
            record: It.
            ask: Returns its outcome.
            began_ns: When a bulk call began; it can have taken the record since then.
        """
        world = self._world
        world.note(b"sent", record.name)
        client = world.everyone[record.client]
        config = client.producer._kprod.config
        record.deadline_ns = world.scheduler.now_ns + config.delivery_timeout_ms * MS
        record.accepted_ns = world.scheduler.now_ns
        self.sent.append(record)
        self._askers[record.name] = ask
        outcome = ask()
        # A batch that was sent before took the record in time: only this call returned late. A bulk
        # call that waits for memory outlives the first records that it took.
        took_ns = world.scheduler.now_ns if began_ns is None else began_ns
        is_early = world.scheduler.now_ns < took_ns + config.delivery_timeout_ms * MS
        if outcome is not None and outcome[2:] == ("DeliveryTimeout", NOT_PERSISTED) and is_early:
            world.find("I1", f"{record.name.decode()} ended in its own send: {outcome}")
        client.records.append(record)

    def reject(self, record: Sent, error: BaseException) -> None:
        """Note a record that `send` did not take, and whether it could have."""
        world = self._world
        name = type(error).__name__
        where = f"{record.name.decode()} was rejected by sim-{record.client}"
        pool = world.everyone[record.client].producer._kprod.pool
        if name == "BufferTimeout" and not pool.lent_bytes:
            world.find("Q5", f"{where} for want of memory, all of which was free")
        has_asked = "no newer response" not in str(error)
        is_known = name == "UnknownPartition" and record.partition < record.partition_count
        if is_known and has_asked and not world.book.keys() & SHRINKING:
            world.find("Q2", f"{where}: {error}; there were {record.partition_count}")
        world.note(b"rejected", record.name)
        world.count(f"send raised {name}")

    def tell(self, record: Sent, outcome: Outcome) -> None:
        """Note what an observer was told, and that no lock of kprod's is held meanwhile."""
        world = self._world
        if world.threads is not None and world.threads.held[world.threads.current()]:
            world.find("I8", f"a lock is held while {record.name.decode()} is told")
        world.note(b"told", record.name + repr(outcome).encode())
        world.everyone[record.client].told_last = outcome
        if not record.told:
            record.settled_ns = world.scheduler.now_ns
            actor = world.scheduler.current
            record.told_by = actor.number if actor is not None else 0
            self.told.append(record)
        record.told.append(outcome)

    def ask(self, record: Sent) -> Outcome | None:
        """Return how a record ended; None if it has not."""
        return self._askers[record.name]()

    def is_open(self, record: Sent) -> bool:
        """Return whether a record has not ended; `finish` asks once more for how it did."""
        if record.name not in self._ended and self.ask(record) is not None:
            self._ended.add(record.name)
        return record.name not in self._ended

    def finish(self, client_of: "Callable[[int], Client]") -> None:
        """Ask for every record's outcome, and say when each had to be settled."""
        counts = self._world.counts
        for record in self.sent:
            record.final = self.ask(record)
            record.deadline_ns = client_of(record.client).thawed_ns(record.deadline_ns)
            counts["acknowledged" if record.final and not record.final.error else "failed"] += 1
            if record.final and record.final.persistence:
                counts[record.final.persistence] += 1
