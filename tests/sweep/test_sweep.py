"""A connection is lost at every byte of each kind of request and of its response.

The records before, in and behind the lost frame are all delivered, once and in order, whichever way
the connection ended; every invariant of the simulation holds.

Source: F3 of the list of faults; franz-go's and librdkafka's tests cut at single points.
"""

from collections.abc import Iterator

import pytest

from kprod.protocol.api import ApiKey
from tests.sim.plan import Plan
from tests.sim.world import Verdict, World
from tests.sweep.spoiling import ByteCut, Ending, Spoiler

TARGETS = {
    ApiKey.API_VERSIONS: 0,
    ApiKey.METADATA: 0,
    ApiKey.INIT_PRODUCER_ID: 0,
    ApiKey.PRODUCE: 2,  # two records before the one that is hit, two behind it
}
RECORDS = 5
OFFSETS_MAX = 1_000


def _plan() -> Plan:
    sends = [
        {
            "kind": "send",
            "at_ms": 20 * number,
            "producer": 0,
            "caller": 0,
            "topic": "orders",
            "partition": 0,
            "count": 1,
            "size": 10,
            "observers": 3,
        }
        for number in range(RECORDS)
    ]
    settings = {
        "linger_ms": 0,
        "max_block_ms": 5_000,
        "request_timeout_ms": 1_000,
        "delivery_timeout_ms": 10_000,
        "reconnect_backoff_ms": 20,
    }
    return Plan(
        seed=1,
        brokers=1,
        topics={"orders": 1},
        producers=[settings],
        operations=sends,
        load_ms=3_000,
        mode="threads",
    )


def _run(cut: ByteCut, ending: Ending) -> Verdict:
    world = World(_plan())
    world.network.on_link = Spoiler(cut, ending).watch
    world.happened("cut")
    return world.run()


def _cuts(api: ApiKey, *, is_response: bool) -> Iterator[ByteCut]:
    """Yield a cut for each byte of the frame, whose length the first run shows."""
    frame_bytes = OFFSETS_MAX
    at_byte = 0
    while at_byte <= frame_bytes:
        cut = ByteCut(api, TARGETS[api], at_byte, is_response=is_response)
        yield cut
        frame_bytes = cut.frame_bytes
        at_byte += 1


@pytest.mark.slow
@pytest.mark.parametrize("is_response", [False, True], ids=["request", "response"])
@pytest.mark.parametrize("api", TARGETS, ids=lambda api: api.name)
@pytest.mark.parametrize("ending", Ending, ids=lambda ending: ending.name)
def test_no_byte_is_a_bad_place_to_lose_a_connection(
    api: ApiKey, ending: Ending, is_response: bool
) -> None:
    """Every record arrives, every invariant holds, and the connection was really lost."""
    bad = {}
    count = 0
    for cut in _cuts(api, is_response=is_response):
        verdict = _run(cut, ending)
        count += 1
        assert cut.has_acted
        if verdict.findings or verdict.counts["failed"]:
            bad[count - 1] = verdict.findings, verdict.counts["failed"]
        assert verdict.counts["acknowledged"] >= RECORDS
    assert not bad
    assert 20 < count < OFFSETS_MAX
