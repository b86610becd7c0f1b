"""A connection with TLS and a login is harmed at every byte of its ciphertext, in both directions.

It is closed or reset there, nothing behind the byte arrives, or a bit of it is flipped. Each record
is delivered once and in order, or has an error that is true of the log.
"""

import pytest

from kprod.errors import KprodError, Persistence
from tests.sweep.cipher_world import RECORDS, CipherWorld, Delivered, Fault, Harm
from tests.sweep.waiting_world import run_waiting

LINKS = 2
"""To the bootstrap address, and to the node."""

STEP_BYTES = 150
"""Between the bytes that are tried in each run of the tests; the long test tries all."""

NEVER = 1 << 40
_harmed = pytest.mark.parametrize("harm", Harm, ids=lambda harm: harm.name.lower())


def length(link: int, *, is_response: bool) -> int:
    """Bytes that a connection without a fault has in one direction."""
    whole = CipherWorld(Fault(link, is_response, NEVER, Harm.CLOSE), {}).run()
    assert whole.outcomes == whole.log == list(range(RECORDS))
    return whole.passed_bytes


def check(found: Delivered) -> None:
    """No gap, no duplicate, no record without an outcome; errors name the broker or the limit."""
    delivered = [number for number, it in enumerate(found.outcomes) if isinstance(it, int)]
    open_ended = set()
    for number, outcome in enumerate(found.outcomes):
        assert outcome is not None, f"record {number} has no outcome"
        if isinstance(outcome, KprodError):
            assert outcome.persistence is not None, repr(outcome)
            if outcome.persistence is Persistence.POSSIBLY_PERSISTED:
                open_ended.add(number)
    assert len(found.outcomes) == RECORDS
    assert found.log == sorted(set(found.log)), found.log
    assert [found.log[it] for it in found.outcomes if isinstance(it, int)] == delivered
    assert set(delivered) <= set(found.log) <= set(delivered) | open_ended
    for error in found.errors + [it for it in found.outcomes if isinstance(it, KprodError)]:
        assert "127.0.0.1:9000" in str(error) or "max_block_ms=0: no broker has" in str(error)


@_harmed
@pytest.mark.slow
def test_some_bytes(harm: Harm) -> None:
    """One of `STEP_BYTES`, each time another beginning."""
    for number, (link, is_response) in enumerate(directions()):
        beginning = 37 * (number + 5 * list(Harm).index(harm)) % STEP_BYTES
        for at_byte in range(beginning, length(link, is_response=is_response), STEP_BYTES):
            run(Fault(link, is_response, at_byte, harm))


@_harmed
@pytest.mark.long
@pytest.mark.parametrize(("link", "is_response"), [(0, False), (0, True), (1, False), (1, True)])
@pytest.mark.parametrize(("version", "step_bytes"), [("TLSv1.2", 5), ("TLSv1.3", 1)])
def test_every_byte(
    link: int, harm: Harm, version: str, step_bytes: int, *, is_response: bool
) -> None:
    """Of TLS 1.3; and one of five of 1.2."""
    for at_byte in range(0, length(link, is_response=is_response), step_bytes):
        run(Fault(link, is_response, at_byte, harm), ssl_enabled_protocols=version)


@_harmed
@pytest.mark.slow
@pytest.mark.timeout(120, method="thread")  # a handler of SIGALRM would close the direct path
def test_some_bytes_of_records_that_are_waited_for(harm: Harm) -> None:
    """Written and read by the caller, on the direct path."""
    for number, (link, is_response) in enumerate(directions()):
        whole, waits = run_waiting(Fault(link, is_response, NEVER, harm), {})
        assert whole.outcomes == whole.log == list(range(RECORDS))
        assert waits >= RECORDS // 2
        beginning = 53 * (number + 5 * list(Harm).index(harm)) % STEP_BYTES
        for at_byte in range(beginning, whole.passed_bytes, 2 * STEP_BYTES):
            run(Fault(link, is_response, at_byte, harm), is_waited_for=True)


@_harmed
@pytest.mark.long
@pytest.mark.timeout(3600, method="thread")
@pytest.mark.parametrize(("link", "is_response"), [(0, False), (0, True), (1, False), (1, True)])
def test_every_byte_of_records_that_are_waited_for(
    link: int, harm: Harm, *, is_response: bool
) -> None:
    """Of TLS 1.3."""
    whole, _ = run_waiting(Fault(link, is_response, NEVER, harm), {})
    for at_byte in range(whole.passed_bytes):
        run(Fault(link, is_response, at_byte, harm), is_waited_for=True)


def directions() -> list[tuple[int, bool]]:
    """Connection and direction."""
    return [(link, is_response) for link in range(LINKS) for is_response in (False, True)]


def run(fault: Fault, *, is_waited_for: bool = False, **settings: str) -> None:
    """Run one fault; an error of the check names it."""
    try:
        if is_waited_for:
            found, _ = run_waiting(fault, dict(settings))
        else:
            found = CipherWorld(fault, settings).run()
        check(found)
    except BaseException as error:
        error.add_note(f"{fault}")
        raise
