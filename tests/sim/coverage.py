"""Rare states that the runs must have shown: where a counter stays 0, a weight is wrong."""

from collections.abc import Mapping

from tests.sim.faults import FAULTS

EXPECTED = (
    *(f"fault {kind}" for kind in FAULTS),
    "NOT_PERSISTED",
    "POSSIBLY_PERSISTED",
    "acknowledged",
    "callback flushes",
    "callback raises",
    "callback sends",
    "close in the middle",
    "cut with a request in flight",
    "failed",
    "flush left none",
    "flush left records",
    "freeze",
    "pipelined",
    "purge",
    "response that does not fit",
    "result failed",
    "result raised KprodTimeout",
    "result waited",
    "send raised BufferTimeout",
    "send raised ClosedError",
    "send raised MetadataTimeout",
    "send raised RecordTooLarge",
    "wait for a lock",
)


def missing(counts: Mapping[str, int]) -> list[str]:
    """Return the expected counters that are 0."""
    return [name for name in EXPECTED if not counts.get(name)]
