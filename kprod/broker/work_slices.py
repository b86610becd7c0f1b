"""Long requests handled in slices, so that other clients are served between two of them.

Invariants.
    A slice ends when its costs reach `SLICE_COST`; one entry of a request is never divided.
    The next slice begins in a later step of the cluster, after every connection had its turn.

Thread-safety: the broker's thread.
"""

from collections.abc import Callable, Iterator
from functools import partial

from kprod.broker.request import Request

SLICE_COST = 8 << 20
"""A slice's length, in bytes of records to look at: some 10 ms."""

TOPIC_COST = 64 << 10
"""Cost of creating or deleting a topic, or one of its partitions, in bytes of records."""

Soon = Callable[[Callable[[], object]], None]


def run_in_slices(
    request: Request, costs: Iterator[int], finish: Callable[[], object], soon: Soon
) -> None:
    """Handle the entries of a request, as many at a time as fit into a slice.

    Args:
        request: Fails when an entry fails inside.
        costs: Handles one entry each time it is advanced, and gives what that cost.
        finish: Called after the last entry.
        soon: Runs something in the cluster's next step.
    """
    request.run(_Slices(request, costs, finish, soon).go_on)


class _Slices:
    """The rest of a request; an object, since a closure that names itself is a cycle.

    A cycle would keep the request, and the frame that it came in, until the next collection.
    """

    __slots__ = ("_costs", "_finish", "_request", "_soon")

    def __init__(
        self,
        request: Request,
        costs: Iterator[int],
        finish: Callable[[], object],
        soon: Soon,
    ) -> None:
        self._request = request
        self._costs = costs
        self._finish = finish
        self._soon = soon

    def go_on(self) -> None:
        """Handle one slice."""
        left = SLICE_COST
        for cost in self._costs:
            left -= cost
            if left <= 0:
                self._soon(partial(self._request.run, self.go_on))
                return
        self._finish()
