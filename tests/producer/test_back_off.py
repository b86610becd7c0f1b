"""How long a retry waits: drawn once, from the response on, and the longest wait counts."""

import uuid

import pytest

from tests.producer.bench import Bench
from tests.producer.stage import Brokers, Stage

CORRUPT = 2
NOT_LEADER = 6
COORDINATOR_LOADING = 14
UNKNOWN_TOPIC_ID = 100
OTHER_ID = uuid.UUID(int=2)


def _hold_ids(brokers: Brokers) -> None:
    brokers.holds_ids = True


def test_the_longest_of_several_back_offs_counts() -> None:
    """The head's attempts have grown its wait; a younger batch's shorter one does not end it."""
    stage = Stage(retry_backoff_ms=100, retry_backoff_max_ms=1_000)
    stage.fill_pipeline(1)
    for _ in range(4):
        stage.answer(CORRUPT)
        stage.run(1_300)
    sent = len(stage.history)
    stage.answer(CORRUPT)
    stage.run(600)
    assert len(stage.history) == sent
    stage.run(700)
    assert len(stage.history) == sent + 1


def test_a_back_off_is_drawn_once() -> None:
    """However often the sender wakes in between, the retry goes out in the same millisecond."""
    sent_at_ms = []
    for step_ms in (1, 7, 500):
        stage = Stage()
        stage.fill_pipeline(1)
        stage.answer(CORRUPT)
        began_ms = stage.clock.now_ms()
        for _ in range(500 // step_ms):
            stage.run(step_ms)
        sent_at_ms.append(stage.sent_at_ms[-1] - began_ms)
    assert len(set(sent_at_ms)) == 1
    assert 80 <= sent_at_ms[0] <= 120


@pytest.mark.parametrize("slept_ms", [0, 90, 5_000])
def test_a_back_off_counts_from_the_response(slept_ms: int) -> None:
    """However long the sender slept before: its timer's time is from before that sleep."""
    stage = Stage(retry_backoff_ms=100)
    stage.fill_pipeline(1)
    stage.clock.advance(slept_ms)
    began_ms = stage.clock.now_ms()
    stage.answer(CORRUPT)
    stage.run(500)
    assert 80 <= stage.sent_at_ms[-1] - began_ms <= 120


@pytest.mark.parametrize("slept_ms", [0, 90, 5_000])
def test_a_back_off_of_a_producer_id_counts_from_the_response(slept_ms: int) -> None:
    """The same holds for InitProducerId."""
    stage = Stage(prepare=_hold_ids, retry_backoff_ms=100)
    stage.clock.advance(slept_ms)
    stage.give_id(COORDINATOR_LOADING)
    stage.run(79)
    assert not stage.id_requests
    stage.run(41)
    assert len(stage.id_requests) == 1


def test_the_leader_of_another_topic_of_that_name_is_no_new_leader() -> None:
    """One read brings old metadata, and then the rejection: the queue has not followed it yet."""
    bench = Bench(leaders=(0,), linger_ms=0, retry_backoff_ms=100)
    future = bench.send(0, b"v")
    bench.turn()
    bench.turn()
    bench.reject(bench.client.in_flight[0], UNKNOWN_TOPIC_ID)
    bench.lead(1, topic_id=OTHER_ID)
    bench.client.catch_up()
    bench.lead(0)
    bench.turn()
    bench.turn(78)  # the back-off is 100 ms, give or take a fifth
    assert bench.client.in_flight == []
    bench.turn(44)
    assert len(bench.client.in_flight) == 1
    bench.run(turns=5)
    assert future.result(0).offset == 0
    bench.producer.close()


def test_a_new_leader_needs_no_back_off() -> None:
    """The same read with a new leader of the same topic: the batch goes there at once (KIP-951)."""
    bench = Bench(leaders=(0,), linger_ms=0, retry_backoff_ms=100)
    future = bench.send(0, b"v")
    bench.turn()
    bench.turn()
    bench.reject(bench.client.in_flight[0], NOT_LEADER)
    bench.lead(1)
    bench.client.catch_up()
    bench.turn()
    assert [carried.request.node_id for carried in bench.client.in_flight] == [1]
    bench.run(turns=5)
    assert future.result(0).offset == 0
    bench.producer.close()
