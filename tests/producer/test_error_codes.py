"""Every error code × each of five positions in flight: the batch's outcome, and the text.

The expectations are written down here from Kafka's error table (clients 4.3.1: which exceptions are
`RetriableException` and `InvalidMetadataException`), not read from the product's.
"""

from collections.abc import Iterator

import pytest

from kprod.errors import BrokerError, KprodError, Persistence, UnknownTopic
from kprod.protocol.error_table import ErrorCode
from tests.producer.stage import Brokers, Stage

UNHEARD_OF = 999  # a code of a broker newer than the table
CODES = [*(int(code) for code in ErrorCode if code), UNHEARD_OF]

# fmt: off
RETRIED = {
    2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88,
    89, 100, 103, 106, 122, 123, 133,
}
# fmt: on
REFRESHING = {3, 5, 6, 9, 13, 56, 72, 74, 80, 83, 84, 100, 103}
"""These say that the client's metadata is out of date."""
FATAL = {31, 35, 53, 90}
SEQUENCE_BROKEN = {45, 59}
SUCCESS = {46}
FAILED = set(CODES) - RETRIED - FATAL - SEQUENCE_BROKEN - SUCCESS
OPEN = {-1, 6, 7, 13, 20, 56, UNHEARD_OF}
"""After these a batch may be in the log all the same."""

OUT_OF_ORDER = 45
INVALID_RECORD = 87
POSITIONS = range(5)


def _persistence(code: int) -> Persistence:
    return Persistence.POSSIBLY_PERSISTED if code in OPEN else Persistence.NOT_PERSISTED


def _check_error(error: KprodError | None, code: int, persistence: Persistence) -> None:
    assert isinstance(error, BrokerError)
    assert error.code == code
    assert error.persistence is persistence


def _stages(code: int) -> Iterator[tuple[Stage, int]]:
    """Each position: five in flight, those before it acknowledged, it answered, the rest too."""
    for position in POSITIONS:
        stage = Stage(delivery_timeout_ms=120_000)
        stage.fill_pipeline()
        stage.settled.clear()
        for offset in range(position):
            stage.answer(0, 1 + offset)
        stage.take().answer(code)
        for held in list(stage.held):
            held.answer(0 if code in SUCCESS else OUT_OF_ORDER)
        stage.held.clear()
        yield stage, position


def _respond_to_all(stage: Stage, count: int, base_offset: int) -> list[tuple[int, int, int]]:
    """Acknowledge `count` batches, request by request; returns ids, epochs and sequences."""
    seen: list[tuple[int, int, int]] = []
    while len(seen) < count:
        if not stage.held:
            stage.run(2_000)
        batch = stage.answer(0, base_offset + len(seen)).batch
        seen.append((batch.producer_id, batch.epoch, batch.sequence))
    return seen


def _outcomes(stage: Stage) -> list[tuple[bytes, int]]:
    return [(value, getattr(error, "code", -2) if error else 0) for value, error in stage.settled]


def _values(first: int = 0) -> list[tuple[bytes, int]]:
    return [(b"%d" % number, 0) for number in range(first, 5)]


@pytest.mark.parametrize("code", sorted(RETRIED))
def test_a_retried_batch_comes_again_as_it_was(code: int) -> None:
    """The same bytes, after the back-off, those behind it after it; none lost or reordered."""
    for stage, position in _stages(code):
        questions = stage.metadata_requests
        stage.run(70)
        assert not stage.held, "sent again before the back-off was over"
        stage.run(200)
        assert stage.held[0].batch == stage.history[1 + position].batch
        assert (stage.metadata_requests > questions) is (code in REFRESHING)
        seen = _respond_to_all(stage, 5 - position, 1 + position)
        assert seen == [(1_000, 0, 1 + number) for number in range(position, 5)]
        assert _outcomes(stage) == _values()
        assert stage.close() == 0


@pytest.mark.parametrize("code", sorted(RETRIED))
def test_a_retried_batch_that_fails_later_says_what_it_went_through(code: int) -> None:
    """Persistence never goes back: it is of all attempts, not of the last."""
    for stage, position in _stages(code):
        stage.run(300)
        stage.answer(INVALID_RECORD)
        _, error = stage.settled[position]
        _check_error(error, INVALID_RECORD, _persistence(code))
        _respond_to_all(stage, 4 - position, 2 + position)
        assert _outcomes(stage)[position + 1 :] == _values(position + 1)


@pytest.mark.parametrize("code", sorted(FAILED))
def test_a_final_code_fails_its_batch_alone(code: int) -> None:
    """The rest continues in the next epoch, from sequence 0 and in order."""
    for stage, position in _stages(code):
        stage.run()
        _check_error(stage.settled[position][1], code, _persistence(code))
        rest = 4 - position
        assert _respond_to_all(stage, rest, 50) == [(1_000, 1, number) for number in range(rest)]
        codes = dict(_outcomes(stage))
        assert codes.pop(b"%d" % position) == code
        assert set(codes.values()) <= {0}
        stage.send(b"next")
        assert stage.answer(0, 90).batch.epoch == 1
        stage.close()


@pytest.mark.parametrize("code", sorted(SEQUENCE_BROKEN))
def test_broken_sequences_at_the_head_start_again(code: int) -> None:
    """Nothing is in the log and no outcome is open: a new epoch, and the same records again."""
    for stage, position in _stages(code):
        rest = 5 - position
        stage.run(300)
        assert _respond_to_all(stage, rest, 50) == [(1_000, 1, number) for number in range(rest)]
        assert _outcomes(stage) == _values()
        assert stage.close() == 0


@pytest.mark.parametrize("code", sorted(SUCCESS))
def test_a_duplicate_is_a_success_without_offset(code: int) -> None:
    """The broker has it, and does not say where."""
    for stage, position in _stages(code):
        stage.run()
        assert _outcomes(stage) == _values()
        stage.send(b"next")
        assert stage.take().batch.sequence == 6, position


@pytest.mark.parametrize("code", sorted(FATAL))
def test_a_fatal_code_ends_the_producer(code: int) -> None:
    """Unsettled records fail with it, in order; `send` raises it."""
    for stage, position in _stages(code):
        stage.run()
        assert [value for value, _ in stage.settled] == [value for value, _ in _values()]
        for _, error in stage.settled[position:]:
            _check_error(error, code, Persistence.NOT_PERSISTED)
        with pytest.raises(BrokerError) as raised:
            stage.put(b"more")
        assert raised.value.code == code
        assert stage.run(1_000) < 10
        stage.close()


@pytest.mark.parametrize("code", CODES)
def test_init_producer_id(code: int) -> None:
    """Retriable codes are asked again; any other is final. No batch was sent, so none persists."""
    stage = Stage(prepare=_hold_ids, batch_size=0)  # a batch for each record
    futures = [stage.send(b"%d" % number) for number in POSITIONS]
    assert not stage.history
    stage.give_id(code)
    if code in RETRIED:
        stage.run(300)
        stage.give_id()
        _respond_to_all(stage, 5, 0)
        assert [future.result(0).offset for future in futures] == list(POSITIONS)
        return
    for future in futures:
        _check_error(future.exception(0), code, Persistence.NOT_PERSISTED)
    with pytest.raises(BrokerError) as raised:
        stage.put(b"more")
    assert raised.value.code == code
    assert stage.run(1_000) < 10
    assert not stage.history


def _hold_ids(brokers: Brokers) -> None:
    brokers.holds_ids = True


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_metadata_codes_disturb_nothing_in_flight(count: int) -> None:
    """Metadata rejects the topic for a while: answers count, sequences continue."""
    stage = Stage(metadata_max_age_ms=10_000)
    sequence = 0
    for code in CODES:
        futures = stage.fill_pipeline(count)
        stage.brokers.topic_errors["orders"] = code
        stage.run(11_000)
        for offset in range(count):
            stage.answer(0, 1 + offset)
        assert [future.result(0).offset for future in futures] == list(range(1, 1 + count))
        later = stage.send(b"later")
        assert stage.run(5_000) < 60
        assert not stage.held
        assert not later.done()
        del stage.brokers.topic_errors["orders"]
        stage.run(2_000)
        batch = stage.answer(0, 7).batch
        assert (batch.epoch, batch.sequence) == (0, sequence + 1 + count)
        assert later.result(0).offset == 7
        sequence += 2 + count


@pytest.mark.parametrize("has_leader", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_metadata_codes_of_a_partition_disturb_nothing_in_flight(
    count: int, has_leader: bool
) -> None:
    """The leader named beside the code counts; if none is, records wait, sequences continue."""
    stage = Stage(metadata_max_age_ms=10_000)
    sequence = 0
    for code in CODES:
        futures = stage.fill_pipeline(count)
        stage.brokers.partition_errors["orders"] = code
        stage.brokers.leaders["orders"] = [1 if has_leader else -1]
        stage.run(11_000)
        for offset in range(count):
            stage.answer(0, 1 + offset)
        assert [future.result(0).offset for future in futures] == list(range(1, 1 + count))
        later = stage.send(b"later")
        assert stage.run(5_000) < 60
        assert bool(stage.held) is has_leader
        assert not later.done()
        del stage.brokers.partition_errors["orders"]
        stage.brokers.leaders["orders"] = [1]
        stage.run(2_000)
        batch = stage.answer(0, 7).batch
        assert (batch.epoch, batch.sequence) == (0, sequence + 1 + count)
        assert later.result(0).offset == 7
        sequence += 2 + count


def test_metadata_codes_of_a_new_topic_are_the_reason_given() -> None:
    """`send` names topic and reason; it waits only where waiting may help."""
    stage = Stage()
    for code in CODES:
        topic = f"new{code}"
        stage.brokers.topic_errors[topic] = code
        with pytest.raises(KprodError):
            stage.put(b"v", topic)
        stage.run()
        with pytest.raises(UnknownTopic, match=f"'{topic}'") as raised:
            stage.put(b"v", topic)
        assert isinstance(raised.value.__cause__, BrokerError)
        assert raised.value.__cause__.code == code
        assert ("cannot be used" in str(raised.value)) is (code not in RETRIED)
        del stage.brokers.topic_errors[topic]
        stage.brokers.leaders[topic] = [1]  # else its question is asked again and again
        stage.run(1_000)
