"""Load on one connection while its login is renewed again and again, at either broker.

Five requests are in flight whenever the connection is not being logged in: there are always more
batches than that, and a batch holds a record or two.
"""

import threading
from collections import deque
from dataclasses import dataclass

from kprod import Producer, RecordFuture

IN_FLIGHT = 5
BATCH_BYTES = 100
_WAITING_RECORDS = 60  # more than a few batches; the look at the first of them is quick
_TURN_S = 0.001


@dataclass(slots=True)
class Renewed:
    """The results of a run.

    Attributes:
        sent: Number of records, each of which has arrived once and in order.
        full_share: Share of the looks that found five requests in flight.
        failed: Renewals that failed.
        disconnections: Connections that ended.
    """

    sent: int
    full_share: float
    failed: int
    disconnections: int


def renewed(producer: Producer, topic: str, renewals: int) -> Renewed:
    """Send until a login was renewed so often.

    Args:
        producer: With batches of `BATCH_BYTES`, and not closed.
        topic: An empty topic with one partition.
        renewals: Number of renewals to wait for.

    Returns:
        The results.

    Raises:
        AssertionError: A record has another offset than its number.
    """
    waiting: deque[RecordFuture] = deque()
    clock = threading.Event()
    sent = arrived = looks = full = 0
    while True:
        while len(waiting) < _WAITING_RECORDS:
            waiting.append(producer.send(topic, b"%d" % sent))
            sent += 1
        counted = producer.metrics()["producer-metrics"]
        looks += 1
        full += counted["requests-in-flight"] >= IN_FLIGHT
        while waiting and waiting[0].done():
            assert waiting.popleft().result(0).offset == arrived
            arrived += 1
        if counted["successful-reauthentication-total"] >= renewals:
            break
        clock.wait(_TURN_S)
    assert [it.result(60).offset for it in waiting] == list(range(arrived, sent))
    counted = producer.metrics()["producer-metrics"]
    return Renewed(
        sent,
        full / looks,
        int(counted["failed-reauthentication-total"]),
        int(counted["connection-close-total"]),
    )
