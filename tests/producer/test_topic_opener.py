"""The end of a wait for a topic or a partition: only a response that decides it."""

import random
from typing import Any

import pytest

from kprod.clock import ManualClock
from kprod.cluster.metadata import Metadata
from kprod.config import Address, MetadataSettings
from kprod.errors import KprodError, UnknownPartition
from kprod.producer.topic_opener import TopicOpener
from kprod.producer.topic_queues import TopicQueues
from tests.cluster.bodies import metadata_response, topic_entry

BACKOFF_MAX_MS, MAX_IDLE_MS, PATIENCE_MS = 200, 60_000, 30_000
AUTHORIZATION_FAILED = 29


class Queues:
    """The accumulator's part that an opener calls."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def topic_queues(self, topic: str, partition_count: int) -> str:
        """Note how many queues there are."""
        self.counts[topic] = partition_count
        return topic


class Waiting:
    """An opener whose steps are taken one by one, and a cluster that the test answers for."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        settings = MetadataSettings(
            bootstrap_servers=(Address("first", 1),),
            metadata_max_age_ms=300_000,
            metadata_max_idle_ms=MAX_IDLE_MS,
            metadata_recovery_strategy="none",
            metadata_recovery_rebootstrap_trigger_ms=90_000,
            retry_backoff_ms=100,
            retry_backoff_max_ms=BACKOFF_MAX_MS,
            allow_auto_create_topics=False,
        )
        self.metadata = Metadata(settings, rng=random.Random(3))
        self.queues = Queues()
        self.opener = TopicOpener(
            self.metadata,
            self.queues,  # type: ignore[arg-type]
            clock=self.clock,
            wake=lambda: None,
            max_block_ms=PATIENCE_MS,
        )

    def ask(self) -> set[str] | None:
        """Let back-offs pass, and take the question that is due."""
        self.clock.advance(2 * BACKOFF_MAX_MS)
        body = self.metadata.next_request(self.clock.now_ms())
        return None if body is None else {entry["name"] for entry in body["topics"]}

    def answer(self, *topics: dict[str, Any]) -> None:
        """Answer the question that is out."""
        self.metadata.handle_response(metadata_response(*topics), self.clock.now_ms())

    def know(self, *topics: dict[str, Any]) -> None:
        """Let topics be in use, and answered about."""
        for topic in topics:
            self.metadata.add_topic(topic["name"], self.clock.now_ms())
        assert self.ask() is not None
        self.answer(*topics)


class Steps:
    """Steps of an opener, with the waits that they ask for."""

    def __init__(self, waiting: Waiting, steps: Any) -> None:
        self._metadata = waiting.metadata
        self._steps = steps
        self.ended: object = None
        self._newer = None
        self.go_on()

    def go_on(self) -> object:
        """Take steps as long as no new answer is waited for; how they ended, None if they wait."""
        try:
            while self._newer is None or self._metadata.is_newer_than(self._newer.version):
                self._newer = (
                    next(self._steps)
                    if self._newer is None
                    else self._steps.send(self._metadata.version)
                )
        except StopIteration:
            self.ended = "found"
        except KprodError as error:
            self.ended = type(error)
        return self.ended


@pytest.fixture
def waiting() -> Waiting:
    """A cluster of which nothing is known."""
    return Waiting()


def _orders(count: int, **more: Any) -> dict[str, Any]:
    return topic_entry("orders", [(1, 5)] * count, **more)


def test_an_answer_to_an_earlier_question_does_not_reject_a_partition(waiting: Waiting) -> None:
    """It may be older than the partition."""
    waiting.know(_orders(2))
    waiting.metadata.request_update()
    assert waiting.ask() == {"orders"}
    steps = Steps(waiting, waiting.opener.finding(TopicQueues("orders", 2), 3, PATIENCE_MS))

    waiting.answer(_orders(2))
    assert steps.go_on() is None
    assert waiting.ask() == {"orders"}
    waiting.answer(_orders(4))

    assert steps.go_on() == "found"
    assert waiting.queues.counts == {"orders": 4}


def test_one_newer_answer_rejects_a_partition(waiting: Waiting) -> None:
    """A partition that does not exist gets one refresh, then the error."""
    waiting.know(_orders(2))
    steps = Steps(waiting, waiting.opener.finding(TopicQueues("orders", 2), 3, PATIENCE_MS))
    assert waiting.ask() == {"orders"}
    waiting.answer(_orders(2))

    assert steps.go_on() is UnknownPartition


def test_an_answer_about_other_topics_does_not_reject_a_topic(waiting: Waiting) -> None:
    """A rejection from before the call may be out of date, whatever else is answered meanwhile."""
    waiting.know(_orders(0, error_code=AUTHORIZATION_FAILED))
    waiting.metadata.add_topic("clicks", waiting.clock.now_ms())
    assert waiting.ask() == {"clicks"}
    steps = Steps(waiting, waiting.opener.opening("orders", PATIENCE_MS))

    waiting.answer(topic_entry("clicks", [(1, 5)]))
    assert steps.go_on() is None
    assert waiting.ask() == {"orders"}
    waiting.answer(_orders(1))

    assert steps.go_on() == "found"


def test_a_partition_of_a_topic_out_of_use_is_asked_for(waiting: Waiting) -> None:
    """Nobody has sent to the topic for `metadata_max_idle_ms`; the question names it again."""
    waiting.know(_orders(2))
    waiting.clock.advance(MAX_IDLE_MS)
    waiting.metadata.request_update()
    steps = Steps(waiting, waiting.opener.finding(TopicQueues("orders", 2), 2, PATIENCE_MS))

    assert waiting.ask() == {"orders"}
    waiting.answer(_orders(3))
    assert steps.go_on() == "found"


def test_a_failed_request_is_repeated_for_waiting_threads(waiting: Waiting) -> None:
    """However long it takes: the topic does not go out of use meanwhile."""
    waiting.know(_orders(2))
    steps = Steps(waiting, waiting.opener.finding(TopicQueues("orders", 2), 2, PATIENCE_MS))
    for _ in range(3):
        assert waiting.ask() == {"orders"}
        waiting.metadata.handle_failure(UnknownPartition("any"), waiting.clock.now_ms())
        waiting.clock.advance(MAX_IDLE_MS)
        assert steps.go_on() is None

    assert waiting.ask() == {"orders"}
    waiting.answer(_orders(3))
    assert steps.go_on() == "found"
