"""The faults that can cause a record's failure: a table from errors to faults.

Source: Q2 of the invariants of quality; the codes that brokers give, in `tests.sim.faults`.
"""

from collections.abc import Iterable, Mapping, Sequence

from kprod.protocol.error_table import error_for
from tests.sim import faults
from tests.sim.group_plan import GROUP_FAULTS
from tests.sim.oracle import Finding, Sent
from tests.sim.reader_plan import READER_FAULTS
from tests.sim.scheduler import MS

_HARMLESS = frozenset({"spurious_wakeup", "wall_clock", "twice", "grow_topic", "checkpoint"})
_ANY_FAULT = (frozenset(faults.FAULTS) - _HARMLESS - READER_FAULTS.keys() - GROUP_FAULTS.keys()) | {
    "slow callback",
    "dead broker",
}
_LOST = frozenset(
    {
        "hold", "slow", "slice", "window", "cut", "half_open", "refuse", "black_hole", "swizzle",
        "stop_broker", "stall", "disconnect_all", "throttle", "no_response", "late_response",
        "disconnect", "reject_then_lose", "omit", "empty", "cut_response", "wrong_correlation",
        "drip", "freeze", "names_fail", "lag", "dead broker",
        "crash", "restart",
    }
)  # fmt: skip
"""Faults after which a request has no response in time."""
_GONE = frozenset(
    {"remake_topic", "reject_then_lose", "stale_metadata", "forget_topic", "error_metadata"}
)


def _names(codes: Iterable[int]) -> frozenset[str]:
    return frozenset(type(error_for(code)).__name__ for code in codes)


def _by_code() -> Mapping[str, frozenset[str]]:
    """Return the faults that make a broker give each code, by the error's name."""
    given: Sequence[tuple[Iterable[int], Iterable[str]]] = (
        (faults.BEFORE_APPEND, ("error_before", "reject_then_lose")),
        (faults.FINAL, ("error_final", "too_large")),
        ((faults.TOO_LARGE,), ("too_large", "reject_then_lose")),
        ((*faults.SEQUENCE, faults.OLD_EPOCH), ("sequence_error",)),
        (faults.FATAL, ("error_fatal",)),
        (faults.AFTER_APPEND, ("error_after",)),
        # Codes that brokers send without a fault.
        ((32, 87), ("wall_clock",)),  # and the valid records of the batch
        ((3, 100, 103), ("remake_topic", "reject_then_lose", "forget_topic", "stale_metadata")),
        (
            (5, 6),
            (
                "reject_then_lose",
                "move_leader",
                "stop_broker",
                "stale_metadata",
                "remake_topic",
                "crash",
                "restart",
            ),
        ),
        ((7, 19, 20), ("lag", "stop_broker", "stall", "move_leader")),
        # After a record whose outcome is unknown, a request that was late, or another epoch.
        ((45, 46, 47, 59), _ANY_FAULT),
    )
    causes: dict[str, frozenset[str]] = {}
    for codes, kinds in given:
        for name in _names(codes):
            causes[name] = causes.get(name, frozenset()) | frozenset(kinds)
    return causes


CAUSES: Mapping[str, frozenset[str]] = {
    **_by_code(),
    "DeliveryTimeout": _ANY_FAULT,
    "RequestTimeout": _LOST,
    "Disconnected": _LOST,
    "ConnectionFailed": _LOST,
    "KprodError": frozenset({"memory_error"}),  # the sender could not continue
    "RemoteProtocolError": frozenset({"wrong_correlation", "cut_response"}),
    "UnknownPartition": _GONE,
    "UnknownTopic": _GONE,
    "Purged": frozenset({"purge"}),
    "ClosedError": frozenset({"close", "memory_error"}),
}
"""The events that must precede a record's failure, by the error's name."""


def check_causes(sent: Iterable[Sent], book: Mapping[str, int]) -> Iterable[Finding]:
    """Q2: each failure has a cause in the book of what happened first when."""
    for record in sent:
        final = record.final
        if final is None or not final.error:
            continue
        name = record.name.decode()
        causes = CAUSES.get(final.error)
        if causes is None:
            yield Finding("Q2", f"{name} failed with {final.error}, of which nothing is known")
            continue
        end_ns = record.settled_ns if record.settled_ns >= 0 else 1 << 62
        if not any(book.get(kind, 1 << 62) <= end_ns for kind in causes):
            happened = {kind: at_ns // MS for kind, at_ns in book.items()}
            yield Finding("Q2", f"{name} failed with {final.error} without a cause: {happened}")
