"""Long requests handled in slices, so that other clients are served between two of them.

Invariants.
    A slice ends when its costs reach `SLICE_COST`; one entry of a request is never divided.
    The next slice begins in a later step of the cluster, after every connection had its turn.

Thread-safety: the broker's thread.
"""

from collections.abc import Callable, Iterator

from kprod.broker.request import Request

SLICE_COST = 8 << 20
"""A slice's length, in bytes of records to look at: some 10 ms."""

TOPIC_COST = 64 << 10
"""What making or deleting a topic, or one partition of it, costs beside a byte of records."""

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

    def go_on() -> None:
        left = SLICE_COST
        for cost in costs:
            left -= cost
            if left <= 0:
                soon(lambda: request.run(go_on))
                return
        finish()

    request.run(go_on)
