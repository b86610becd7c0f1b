"""Whether the error of each failed record is true: its class, and its persistence.

The wire shows each record's history: the attempts of the batches that it was in, and the error code
of each response. A table derives the possible errors from it.

Source: I13 of the reliability page's invariants; `kprod.producer.produce_response` for what each
code leaves open; KIP-126 for batches that are too large.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from crc32c import crc32c

from kprod.protocol.error_table import error_for
from tests.oracle import record_v2
from tests.sim import faults
from tests.sim.oracle import NOT_PERSISTED, Finding, Sent

if TYPE_CHECKING:
    from tests.sim.tap import Attempt, ClientTap

_EVERY_CODE = [code for code in range(-1, 120) if code]
_TAKEN = type(error_for(faults.TAKEN)).__name__
_TOO_LARGE = type(error_for(faults.TOO_LARGE)).__name__
_OF_ANOTHER = frozenset({*faults.FATAL, *faults.SEQUENCE, faults.OLD_EPOCH})
"""Codes that end batches beside the one that they were said of."""

_FATAL = frozenset(type(error_for(code)).__name__ for code in faults.FATAL)
_NAMES_RECORDS = frozenset({32, 87})
_INVALID = 87
"""Error code of a batch's valid records if the broker names invalid ones with another code."""

CODES: Mapping[str, frozenset[int]] = {
    name: frozenset(code for code in _EVERY_CODE if type(error_for(code)).__name__ == name)
    for name in {type(error_for(code)).__name__ for code in _EVERY_CODE}
}
"""Codes by the name of the error that they become."""


def check_truth(
    records: Iterable[Sent],
    tap: "ClientTap",
    logged: AbstractSet[bytes],
    *,
    is_undisturbed: bool,
) -> Iterable[Finding]:
    """I13: compare each error with what the wire shows.

    Args:
        records: Records of one producer.
        tap: On its wire.
        logged: Names of the records in any log. One that ends while it is in flight may be taken.
        is_undisturbed: No connection was given up: else a request may have left without a trace.

    Yields:
        Contradictions between the wire and the records' outcomes.
    """
    wrong = [record for record in records if record.final and record.final.error]
    if not wrong:
        return
    attempts = _attempts_by_record(tap.failed)
    codes = {attempt.code for attempt in tap.failed} | tap.id_codes
    for record in wrong:
        assert record.final is not None
        went_through = attempts.get(record.name, ())
        text = f"{record.name.decode()} failed with {record.final.error}"
        seen = f"it went through {[attempt.code for attempt in went_through]}"
        may_be = CODES.get(record.final.error)
        is_open = any(attempt.leaves_open for attempt in went_through)
        # A record may end while it is in flight, and whatever comes back is of no matter.
        may_be_open = record.name in logged or _may_have_been_in_flight(record, went_through)
        if record.final.persistence == NOT_PERSISTED and is_open:
            yield Finding("I13", f"{text}, NOT_PERSISTED; {seen}")
        is_known = may_be is not None and is_undisturbed and not is_open and not may_be_open
        if record.final.persistence != NOT_PERSISTED and is_known:
            yield Finding("I13", f"{text}, POSSIBLY_PERSISTED; {seen}")
        if record.final.error == _TAKEN:
            yield Finding("I13", f"{text}, which says that it is in the log")
        own = {attempt.code for attempt in went_through}
        if own & _NAMES_RECORDS:
            own.add(_INVALID)
        if may_be is not None and not may_be & (own | (codes & _OF_ANOTHER)):
            yield Finding("I13", f"{text}; {seen}, and {sorted(may_be)} is not among them")
        if record.final.error == _TOO_LARGE and not any(
            attempt.code == faults.TOO_LARGE and attempt.record_count == 1
            for attempt in went_through
        ):
            yield Finding("I13", f"{text}, and was never rejected alone")


def _may_have_been_in_flight(record: Sent, attempts: "Iterable[Attempt]") -> bool:
    """Return whether a record may have ended before its response, as with a fatal error."""
    assert record.final is not None
    return record.final.error in _FATAL and any(
        attempt.ended_ns >= record.settled_ns for attempt in attempts
    )


def _attempts_by_record(failed: "Sequence[Attempt]") -> Mapping[bytes, "Sequence[Attempt]"]:
    """Return the attempts of the batches that each record was in."""
    names: dict[int, list[bytes]] = {}
    attempts: dict[bytes, list[Attempt]] = defaultdict(list)
    for attempt in failed:
        if not attempt.batch:
            continue
        if attempt.records not in names:
            names[attempt.records] = [
                (record.value or b"").partition(b"|")[0]
                for batch in record_v2.decode_batches(attempt.batch, checksum=crc32c)
                for record in batch.records
            ]
        for name in names[attempt.records]:
            attempts[name].append(attempt)
    return attempts
