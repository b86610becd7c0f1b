"""Sequences and epochs: kept by retries, never given twice, begun again when outcomes are known."""

import pytest

from kprod import RecordFuture
from kprod.errors import BrokerError, DeliveryTimeout, Persistence
from kprod.protocol.api import ApiKey
from tests.network.scripted import ALL_VERSIONS
from tests.producer.stage import Brokers, SentBatch, Stage

NOT_LEADER = 6
CORRUPT = 2
TOO_LARGE = 10
OUT_OF_ORDER = 45
UNKNOWN_PRODUCER = 59
INVALID_RECORD = 87
SEQUENCE_COUNT = 2**31


def _hold_ids(brokers: Brokers) -> None:
    brokers.holds_ids = True


def _transaction_manager(batch: SentBatch) -> tuple[int, int, int]:
    return batch.producer_id, batch.epoch, batch.sequence


def test_the_second_batch_waits_for_the_first_success() -> None:
    """A broker takes any first sequence of a producer it does not know (franz-go 223)."""
    stage = Stage()
    for number in range(3):
        stage.send(b"%d" % number)
    assert len(stage.held) == 1
    stage.answer(NOT_LEADER)
    stage.run(200)
    assert len(stage.held) == 1
    stage.answer()
    for number in range(6):
        stage.send(b"more%d" % number)
    assert len(stage.held) == 5


def test_an_error_ends_the_pipeline_until_the_next_success() -> None:
    """After a retry one batch at a time, each with its bytes, then five again."""
    stage = Stage()
    stage.fill_pipeline()
    sent = [held.batch for held in stage.held]
    stage.answer(CORRUPT)
    for _ in range(4):
        stage.answer(OUT_OF_ORDER)
    stage.run(200)
    assert [held.batch for held in stage.held] == sent[:1]
    stage.answer()
    assert [held.batch for held in stage.held] == sent[1:]


def test_not_leader_and_then_ok_on_the_pipeline() -> None:
    """The second's OK proves the first to be there; both come again and are known to the broker."""
    stage = Stage()
    futures = stage.fill_pipeline(2)
    sent = [held.batch for held in stage.held]
    stage.answer(NOT_LEADER)
    stage.answer(0, 2)
    stage.run(200)
    assert stage.answer(0, 1).batch == sent[0]
    assert stage.answer(0, 2).batch == sent[1]
    assert [future.result(0).offset for future in futures] == [1, 2]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_resent_batch_is_byte_identical(codec: str) -> None:
    """After an error, a lost connection and a silent broker (librdkafka 4750, aiokafka 184)."""
    stage = Stage(compression_type=codec, request_timeout_ms=1_000)
    future = stage.send(b"payload " * 500)
    first = stage.answer(CORRUPT).batch
    stage.run(200)
    stage.drop_connections()
    stage.run(2_000)
    stage.held.clear()
    stage.run(1_500)  # no response: the request times out
    assert stage.answer(0, 4).batch == first
    assert future.result(0).offset == 4
    assert {held.batch for held in stage.history} == {first}
    assert len(stage.history) >= 4


def test_nothing_goes_to_a_new_leader_until_the_old_one_is_settled() -> None:
    """Five in flight, the leader moves: the new one gets the unsettled batches, in order."""
    stage = Stage(metadata_max_age_ms=10_000)
    stage.fill_pipeline()
    sent = [held.batch for held in stage.held]
    stage.brokers.leaders["orders"] = [2]
    stage.run(11_000)
    new = stage.send(b"new")
    assert {held.broker for held in stage.history} == {1}
    for _ in range(4):
        stage.answer()
        assert {held.broker for held in stage.history} == {1}
    stage.answer(NOT_LEADER)
    held = stage.answer()
    assert (held.broker, held.batch) == (2, sent[4])
    assert _transaction_manager(stage.answer(0, 9).batch) == (1_000, 0, 6)
    assert new.result(0).offset == 9


def test_a_leader_named_in_the_answer_is_asked_without_back_off() -> None:
    """KIP-951: the batch goes to the new leader in the same millisecond."""
    stage = Stage()
    stage.fill_pipeline(1)
    stage.take().answer(NOT_LEADER, current_leader={"leader_id": 3, "leader_epoch": 9})
    stage.run()
    assert [held.broker for held in stage.held] == [3]


def test_out_of_order_behind_the_head_keeps_its_sequence() -> None:
    """Its predecessor failed, so it was bound to be rejected; no new epoch (librdkafka 3584)."""
    stage = Stage()
    futures = stage.fill_pipeline(3)
    sent = [held.batch for held in stage.held]
    stage.answer(CORRUPT)
    stage.answer(OUT_OF_ORDER)
    stage.answer(OUT_OF_ORDER)
    for number in range(3):
        stage.run(300)
        assert stage.answer(0, 1 + number).batch == sent[number]
    assert [future.result(0).offset for future in futures] == [1, 2, 3]


@pytest.mark.parametrize("code", [OUT_OF_ORDER, UNKNOWN_PRODUCER])
def test_a_batch_of_unknown_outcome_is_never_renumbered(code: int) -> None:
    """A zombie: written, connection lost, the retry rejected. It fails; its bytes may arrive."""
    stage = Stage()
    zombie = stage.fill_pipeline(1)[0]
    sent = stage.take().batch
    stage.drop_connections()
    stage.run(3_000)
    again = stage.answer(code)
    assert again.batch == sent
    error = zombie.exception(0)
    assert isinstance(error, BrokerError)
    assert (error.code, error.persistence) == (code, Persistence.POSSIBLY_PERSISTED)
    stage.send(b"next")
    assert _transaction_manager(stage.answer().batch) == (1_000, 1, 0)
    assert all(held.batch in {sent, again.batch} for held in stage.history[1:3])


def test_nothing_overtakes_a_batch_of_unknown_outcome() -> None:
    """The head is rejected, the one behind is a possible zombie: both fail, the third continues."""
    stage = Stage()
    futures = stage.fill_pipeline(3)
    first, second, third = (held.batch for held in list(stage.held))
    stage.take().answer(OUT_OF_ORDER)
    stage.run(0)
    stage.take()
    stage.take()
    stage.drop_connections()  # second and third were written and are not answered
    stage.run(3_000)
    assert stage.take().batch == first
    stage.history[-1].answer(OUT_OF_ORDER)
    stage.run(3_000)
    errors = [future.exception(0) for future in futures if future.done()]
    persistences = [error.persistence for error in errors if error is not None]
    assert persistences[0] is Persistence.NOT_PERSISTED
    assert set(persistences[1:]) == {Persistence.POSSIBLY_PERSISTED}
    renumbered = [h.batch for h in stage.history if h.batch.epoch == 1]
    assert all(batch.raw[61:] not in {second.raw[61:], third.raw[61:]} for batch in renumbered)


def test_a_new_epoch_waits_for_every_outcome() -> None:
    """Partition 1's batch may be in the log; until that is known no epoch ends."""
    stage = Stage({"orders": [1, 2]})
    stage.fill_pipeline(1)
    unknown = stage.send(b"unknown", partition=1)
    lost = stage.held.pop()
    stage.brokers.silent.add(2)
    stage.drop_connections(2)
    failed = stage.answer(INVALID_RECORD)
    assert failed.batch.epoch == 0
    waiting = stage.send(b"waiting")
    assert stage.run(20_000) < 200
    assert not stage.held
    stage.brokers.silent.clear()
    stage.drop_connections(2)
    stage.run(30_000)
    assert stage.answer(0, 4).batch == lost.batch
    assert unknown.result(0).offset == 4
    assert _transaction_manager(stage.answer(0, 7).batch) == (1_000, 1, 0)
    assert waiting.result(0).offset == 7


def test_a_batch_known_not_to_be_in_the_log_does_not_delay_the_epoch() -> None:
    """While the epoch waits, only what settles an outcome is sent: else something always flies."""
    stage = Stage({"orders": [1, 2]})
    stage.fill_pipeline(1)
    stage.send(b"unknown", partition=1)
    stage.held.pop()
    stage.brokers.silent.add(2)
    stage.drop_connections(2)
    stage.answer(OUT_OF_ORDER)
    count = len(stage.history)
    stage.run(10_000)
    assert len(stage.history) == count
    stage.brokers.silent.clear()
    stage.drop_connections(2)
    stage.run(30_000)
    stage.answer(0, 1)
    stage.run(2_000)
    assert _transaction_manager(stage.answer().batch) == (1_000, 1, 0)


def test_a_new_epoch_begins_every_partition_at_zero_and_comes_once() -> None:
    """Idle and busy partitions alike (KAFKA-12152)."""
    stage = Stage({"orders": [1, 1, 1]})
    for partition in range(3):
        stage.send(b"warm", partition=partition)
        stage.answer()
    stage.send(b"bad", partition=0)
    busy = stage.send(b"busy", partition=1)
    stage.answer(INVALID_RECORD)
    stage.answer(0, 1)
    stage.run(2_000)
    for partition in range(3):
        stage.send(b"after", partition=partition)
        assert _transaction_manager(stage.answer().batch) == (1_000, 1, 0)
    assert busy.done()


def test_a_new_epoch_too_waits_for_its_first_success() -> None:
    """Batches of the new epoch go one by one until one is acknowledged."""
    stage = Stage()
    stage.fill_pipeline(1)
    stage.answer(INVALID_RECORD)
    for number in range(3):
        stage.send(b"%d" % number)
    assert len(stage.held) == 1
    stage.answer()
    stage.send(b"more")
    assert len(stage.held) > 1 or stage.held[0].batch.count > 1


def test_a_new_epoch_sends_at_once_what_waited_for_it() -> None:
    """Nothing but the response happens, and the waiting batch goes out in that millisecond."""
    stage = Stage({"orders": [1, 1]})
    stage.fill_pipeline(1)
    stage.send(b"busy", partition=1)
    stage.answer(INVALID_RECORD)
    stage.send(b"waiting")
    assert len(stage.held) == 1
    began_ms = stage.clock.now_ms()
    stage.take().answer(0, 0)
    stage.run(1_000)
    assert _transaction_manager(stage.take().batch) == (1_000, 1, 0)
    assert stage.sent_at_ms[-1] == began_ms


def test_a_new_epoch_ends_no_linger() -> None:
    """A batch that lingers when it begins goes at its own time, with records sent meanwhile."""
    stage = Stage({"orders": [1, 1]}, linger_ms=50)
    for partition in (0, 1):
        stage.put(b"warm", partition=partition)
    stage.run(51)
    stage.answer()
    stage.put(b"rejected", partition=1)
    stage.put(b"busy")
    stage.run(51)
    held = stage.take()
    stage.put(b"lingering")
    began_ms = stage.clock.now_ms()
    stage.run(10)
    held.respond_to_each(
        {
            ("orders", 0): {"error_code": 0, "base_offset": 1},
            ("orders", 1): {"error_code": INVALID_RECORD, "base_offset": -1},
        }
    )
    stage.run(39)
    assert not stage.held
    stage.put(b"as well")
    stage.run(11)
    assert stage.take().batch.count == 2
    assert stage.sent_at_ms[-1] == began_ms + 50


@pytest.mark.parametrize("retries", [0, 2])
def test_sequences_wrap_to_zero(retries: int) -> None:
    """Batches of two records from 2³¹-3 on: the next begin at 2³¹-1 and 1 (KAFKA-7693)."""
    stage = Stage(linger_ms=5)
    stage.put(b"warm")
    stage.run(10)
    stage.answer()
    stage.producer._kprod.path.topics["orders"].queues[0].next_sequence = SEQUENCE_COUNT - 3
    seen = []
    for number in range(4):
        stage.put(b"%d" % number)
        stage.put(b"%d" % number)
        stage.run(10)
        seen.append(stage.held[-1].batch.sequence)
    assert seen == [SEQUENCE_COUNT - 3, SEQUENCE_COUNT - 1, 1, 3]
    for _ in range(retries):
        for position in range(len(stage.held)):
            stage.answer(CORRUPT if position == 0 else OUT_OF_ORDER)
        stage.run(2_000)
    answered: list[int] = []
    while len(answered) < 4:
        answered.append(stage.answer(0, len(answered)).batch.sequence)
        stage.run(300)
    assert answered == seen
    assert [error for _, error in stage.settled] == [None] * 9


def test_the_parts_of_a_split_batch_share_its_sequences_over_the_wrap() -> None:
    """Consecutive from the whole's first, modulo 2³¹."""
    stage = Stage(linger_ms=5)
    stage.put(b"warm")
    stage.run(10)
    stage.answer()
    stage.producer._kprod.path.topics["orders"].queues[0].next_sequence = SEQUENCE_COUNT - 2
    for number in range(8):
        stage.put(b"%d" % number * 50)
    stage.run(10)
    whole = stage.answer(TOO_LARGE).batch
    assert (whole.sequence, whole.count) == (SEQUENCE_COUNT - 2, 8)
    expected = whole.sequence
    for _ in range(2):
        part = stage.answer().batch
        assert part.sequence == expected
        expected = (expected + part.count) % SEQUENCE_COUNT
    assert expected == 6
    assert len(stage.settled) == 9


def test_the_last_epoch_is_followed_by_another_producer_id() -> None:
    """32766, 32767, then InitProducerId again; nothing spins (librdkafka 3720)."""

    def prepare(brokers: Brokers) -> None:
        brokers.first_epoch = 32_766

    stage = Stage(prepare=prepare)
    seen = []
    for number in range(3):
        stage.send(b"%d" % number)
        stage.brokers.producer_id = 2_000
        stage.brokers.first_epoch = 0
        seen.append(_transaction_manager(stage.answer(INVALID_RECORD).batch))
        assert stage.run(1_000) < 20
    assert seen == [(1_000, 32_766, 0), (1_000, 32_767, 0), (2_000, 0, 0)]


def _expire_in_flight(stage: Stage) -> RecordFuture:
    """A batch that waited for the one before it is in flight, in a pipeline, at its deadline."""
    stage.send(b"slow")
    stuck = stage.send(b"stuck")
    stage.run(500)
    stage.answer()
    stage.run(1_500)
    error = stuck.exception(0)
    assert isinstance(error, DeliveryTimeout)
    assert error.persistence is Persistence.POSSIBLY_PERSISTED
    return stuck


def test_a_deadline_in_flight_gates_the_partition_until_its_answer() -> None:
    """The futures fail on time; then nothing is sent, then a new epoch (departure 5)."""
    stage = Stage(delivery_timeout_ms=2_000, request_timeout_ms=1_900)
    _expire_in_flight(stage)
    late = stage.take()
    waiting = stage.send(b"next")
    assert stage.run(300) < 20
    assert not stage.held
    late.answer(0, 1)
    stage.run()
    assert _transaction_manager(stage.answer().batch) == (1_000, 1, 0)
    assert waiting.done()


def test_a_deadline_in_flight_gates_the_partition_until_its_connection_is_gone() -> None:
    """Without a response the request's timeout closes the connection; the partition continues."""
    stage = Stage(delivery_timeout_ms=2_000, request_timeout_ms=1_900)
    _expire_in_flight(stage)
    stage.held.clear()
    waiting = stage.send(b"next")
    stage.run(300)
    assert not stage.held
    stage.run(1_000)
    assert _transaction_manager(stage.answer().batch) == (1_000, 1, 0)
    assert waiting.done()


def test_those_behind_an_expired_batch_keep_their_sequences_until_answered() -> None:
    """The broker accepted the records, so they succeed; then a new epoch begins."""
    stage = Stage(delivery_timeout_ms=2_000, request_timeout_ms=1_900)
    stage.send(b"slow")
    stuck = stage.send(b"stuck")
    stage.run(500)
    stage.answer()
    behind = [stage.send(b"behind%d" % number) for number in range(3)]
    stage.run(1_500)
    assert stuck.done()
    for offset in range(4):
        stage.answer(0, 1 + offset)
    assert [future.result(0).offset for future in behind] == [2, 3, 4]
    stage.send(b"next")
    assert _transaction_manager(stage.answer().batch) == (1_000, 1, 0)


def test_a_batch_that_has_expired_is_not_sent() -> None:
    """The sender comes late: the deadline is looked at before the drain (KAFKA-17862)."""
    stage = Stage(delivery_timeout_ms=1_000, request_timeout_ms=500)
    stage.send(b"first")
    stage.answer()
    future = stage.put(b"v")
    stage.clock.advance(1_000)
    stage.run()
    error = future.exception(0)
    assert isinstance(error, DeliveryTimeout)
    assert error.persistence is Persistence.NOT_PERSISTED
    assert len(stage.history) == 1
    stage.send(b"next")
    assert stage.take().batch.sequence == 1


def test_a_record_that_is_late_when_callbacks_return_is_not_sent() -> None:
    """A callback sends and then runs longer than the delivery timeout: nothing has armed it yet."""
    stage = Stage(delivery_timeout_ms=1_000, request_timeout_ms=500, batch_size=200)
    stage.send(b"first")
    stage.answer()
    late: list[RecordFuture] = []

    def send_and_sleep(_: object, __: object) -> None:
        late.extend(stage.put(b"late" * 40) for _ in range(2))  # the first batch is full
        stage.clock.advance(1_500)

    stage.producer.send("orders", b"v", partition=0, on_delivery=send_and_sleep)
    stage.clock.advance(1_000)
    stage.run()
    error = late[0].exception(0)
    assert isinstance(error, DeliveryTimeout)
    assert error.persistence is Persistence.NOT_PERSISTED
    assert len(stage.history) == 1


def test_a_gated_partition_neither_stops_its_node_nor_makes_the_sender_spin() -> None:
    """Others of the broker continue; the turns taken are those of events (departure 7)."""
    stage = Stage({"orders": [1, 1, 1]})
    stage.send(b"gate")  # the first of its partition, not answered
    stage.send(b"gated")
    assert stage.run(10_000) <= 3
    stage.send(b"other", partition=1)
    stage.send(b"another", partition=2)
    assert [held.batch.partition for held in stage.held] == [0, 1, 2]
    assert stage.run(10_000) <= 3
    for _ in range(3):
        stage.answer()
    assert _transaction_manager(stage.take().batch) == (1_000, 0, 1)


def test_a_producer_without_idempotence_has_no_identity() -> None:
    """No id is asked for, no sequence is given."""
    stage = Stage(enable_idempotence=False)
    stage.send(b"v")
    assert _transaction_manager(stage.answer().batch) == (-1, -1, -1)
    assert not stage.id_requests


def test_a_throttled_broker_is_asked_again_for_an_id_when_its_time_is_over() -> None:
    """Nothing else would wake the sender then."""
    stage = Stage(prepare=_hold_ids, node_ids=(1,))
    peer, request = stage.id_requests.popleft()
    body = {"error_code": 14, "throttle_time_ms": 5_000, "producer_id": -1, "producer_epoch": -1}
    peer.respond(request, body)
    stage.run(4_900)
    assert not stage.id_requests
    stage.run(300)
    stage.give_id()
    stage.send(b"v")
    assert stage.take().batch.producer_id == 1_000


def test_the_arrival_of_an_id_ends_no_linger() -> None:
    """The first batch waits for its records as every later one does."""
    stage = Stage(prepare=_hold_ids, linger_ms=50)
    stage.put(b"early")
    began_ms = stage.clock.now_ms()
    stage.run(10)
    stage.give_id()
    assert not stage.held
    stage.put(b"late")
    stage.run(100)
    assert stage.take().batch.count == 2
    assert stage.sent_at_ms == [began_ms + 50]


@pytest.mark.parametrize("reason", ["due", "full", "followed", "flushed"])
def test_what_waited_only_for_an_id_goes_when_it_comes(reason: str) -> None:
    """Each way in which a batch is to be sent, in the millisecond of the response."""
    linger_ms = 5 if reason == "due" else 1_000
    stage = Stage(prepare=_hold_ids, linger_ms=linger_ms, batch_size=1_024)
    size_bytes = {"full": 1_024, "followed": 600}.get(reason, 10)
    for _ in range(2 if reason == "followed" else 1):
        stage.put(b"v" * size_bytes)
    if reason == "flushed":
        stage.producer.flush(0)
    stage.run(10)
    assert not stage.held
    began_ms = stage.clock.now_ms()
    stage.give_id()
    assert stage.take().batch.count == 1
    assert stage.sent_at_ms == [began_ms]


def test_a_broker_without_producer_ids_is_named_as_the_reason() -> None:
    """InitProducerId is unknown to it: everything fails, and says what is missing."""
    versions = {key: span for key, span in ALL_VERSIONS.items() if key != ApiKey.INIT_PRODUCER_ID}

    def prepare(brokers: Brokers) -> None:
        brokers.versions = versions

    stage = Stage(prepare=prepare)
    with pytest.raises(Exception, match="INIT_PRODUCER_ID"):
        stage.put(b"v")


def test_a_batch_that_expires_in_flight_stops_its_own_partition_only() -> None:
    """Others stop when its request has ended and the epoch is to be raised, not before."""
    stage = Stage({"orders": [1, 2]}, delivery_timeout_ms=2_000, request_timeout_ms=1_900)
    stage.send(b"slow")
    stuck = stage.send(b"stuck")
    stage.run(500)
    stage.answer()
    late = stage.take()
    stage.run(1_500)
    assert stuck.done()
    other = stage.send(b"other", partition=1)
    stage.answer(0, 3)
    assert other.result(0).offset == 3
    late.answer(0, 1)
    stage.run()
    stage.send(b"next", partition=1)
    assert _transaction_manager(stage.answer().batch) == (1_000, 1, 0)


def test_nothing_about_the_application_leaves_it_unasked() -> None:
    """No telemetry (KIP-714): a producer asks what it needs to produce, and nothing else."""
    stage = Stage(metadata_max_age_ms=10_000)
    stage.fill_pipeline(3)
    for offset in range(3):
        stage.answer(0, 1 + offset)
    stage.run(400_000)
    assert stage.asked == {
        ApiKey.API_VERSIONS,
        ApiKey.METADATA,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.PRODUCE,
    }
