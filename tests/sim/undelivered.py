"""How many records a call of `flush` or `close` must say are not delivered.

A call covers the records that are open when it begins, and counts those of them that failed or are
open when it returns. What other threads do at the very instant of its beginning may be before or
behind it.

Source: Q6 of the invariants of quality; departure 21.
"""

from typing import TYPE_CHECKING

from kprod import SendReceipt

if TYPE_CHECKING:
    from tests.sim.client import Client
    from tests.sim.oracle import Sent
    from tests.sim.world import World


def open_in(receipt: SendReceipt) -> int:
    """Return how many records of a bulk send are not settled."""
    delivered = sum(count for count, _ in receipt.delivered().values())
    return receipt.record_count - delivered - receipt.failed_count


class Covered:
    """The records that a call covers; made when it begins.

    Args:
        world: World of the run.
        client: The producer that is flushed or closed.
    """

    def __init__(self, world: "World", client: "Client") -> None:
        self._world = world
        self._client = client
        self._began_ns = world.scheduler.now_ns
        self._known = len(client.records)
        self._in_calls = client.in_calls
        # A batch counts until all its records have been told, so one that is just being told does.
        self._is_telling = client.telling > 0
        self._alone: list[Sent] = [
            record
            for record in client.records
            if record.is_alone and record.final is None and world.ledger.is_open(record)
        ]
        self._receipts = [(receipt, receipt.failed_count) for receipt in client.receipts]

    def check(self, name: str, returned: int) -> None:
        """Q6: compare what a call has returned."""
        world = self._world
        ended = [(record, world.ledger.ask(record)) for record in self._alone]
        still_open = sum(outcome is None for _, outcome in ended)
        failed = [record for record, outcome in ended if outcome is not None and outcome.error]
        open_bulk = sum(open_in(receipt) for receipt, _ in self._receipts)
        failed_bulk = sum(receipt.failed_count - before for receipt, before in self._receipts)
        surely_failed = sum(record.settled_ns > self._began_ns for record in failed)
        at_once = sum(
            record.accepted_ns == self._began_ns for record in self._client.records[self._known :]
        )
        lowest = still_open + open_bulk + surely_failed
        highest = still_open + open_bulk + len(failed) + failed_bulk + at_once + self._in_calls
        if returned < lowest or (returned > highest and not self._is_telling):
            text = f"{name} returned {returned}, {lowest} to {highest} were not delivered"
            world.find("Q6", f"sim-{self._client.number}: {text}")
