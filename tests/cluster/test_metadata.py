"""When metadata is asked for, about what, and what the responses do."""

import itertools
import random
import threading
from typing import Any

import pytest

from kprod.cluster import awaited_version
from kprod.cluster.connection_failures import KEPT_MAX
from kprod.cluster.metadata import Metadata
from kprod.cluster.metadata_waiters import MetadataWaiters, Waiter
from kprod.cluster.refresh_schedule import NEVER_MS
from kprod.cluster.snapshot import LeaderHint
from kprod.config import Address, MetadataSettings
from kprod.errors import AuthenticationFailed, ClosedError, Disconnected, MetadataTimeout
from kprod.model import Node
from kprod.protocol.error_table import ErrorCode
from tests.cluster.bodies import metadata_response, topic_entry

NOW_MS = 5_000
BACKOFF_MS, BACKOFF_MAX_MS, MAX_AGE_MS, MAX_IDLE_MS, TRIGGER_MS = (
    100,
    1_000,
    300_000,
    60_000,
    90_000,
)


def make(**changes: Any) -> Metadata:
    """Metadata with nothing known."""
    settings = MetadataSettings(
        **{
            "bootstrap_servers": (Address("first", 1), Address("second", 2)),
            "metadata_max_age_ms": MAX_AGE_MS,
            "metadata_max_idle_ms": MAX_IDLE_MS,
            "metadata_recovery_strategy": "rebootstrap",
            "metadata_recovery_rebootstrap_trigger_ms": TRIGGER_MS,
            "retry_backoff_ms": BACKOFF_MS,
            "retry_backoff_max_ms": BACKOFF_MAX_MS,
            "allow_auto_create_topics": False,
            **changes,
        }
    )
    return Metadata(settings, rng=random.Random(3))


def asked(metadata: Metadata, now_ms: int) -> set[str] | None:
    """Take the question that is due, and tell which topics it names."""
    body = metadata.next_request(now_ms)
    return None if body is None else {entry["name"] for entry in body["topics"]}


def known(*names: str, **changes: Any) -> Metadata:
    """Metadata that has had a response about these topics at `NOW_MS`."""
    metadata = make(**changes)
    for name in names:
        metadata.add_topic(name, NOW_MS)
    assert asked(metadata, NOW_MS) == set(names)
    metadata.handle_response(
        metadata_response(*[topic_entry(name, [(1, 5), (2, 5)]) for name in names]), NOW_MS
    )
    return metadata


def next_due_ms(metadata: Metadata, now_ms: int) -> int:
    """Return when the next request may be sent."""
    return now_ms + metadata.update_due_in_ms(now_ms)


def test_begins_with_the_bootstrap_addresses_and_a_question() -> None:
    """Before any response the nodes are the configured ones; a first question is due at once."""
    metadata = make()

    assert metadata.snapshot.is_bootstrap
    assert set(metadata.snapshot.nodes.values()) == {Node(-1, "first", 1), Node(-2, "second", 2)}
    assert metadata.update_due_in_ms(NOW_MS) == 0
    assert asked(metadata, NOW_MS) == set()


def test_the_question_says_whether_topics_may_be_made() -> None:
    """`allow_auto_create_topics` is the broker's to obey."""
    question = make(allow_auto_create_topics=True).next_request(NOW_MS)

    assert question is not None
    assert question["allow_auto_topic_creation"]


def test_an_answer_makes_a_snapshot_and_a_version() -> None:
    """Nodes, topics and version are those of the response."""
    metadata = known("orders")

    assert metadata.version == 1
    assert not metadata.snapshot.is_bootstrap
    assert metadata.snapshot.leader_of("orders", 1) == Node(2, "host-2", 9002)


def test_only_one_question_is_out() -> None:
    """Until a response or a failure is reported nothing is due."""
    metadata = make()
    assert asked(metadata, NOW_MS) is not None

    assert metadata.update_due_in_ms(NOW_MS + 10_000_000) == NEVER_MS
    assert asked(metadata, NOW_MS + 10_000_000) is None


def test_nothing_is_asked_until_the_answer_is_old() -> None:
    """With nothing wrong, the next question comes at `metadata_max_age_ms`."""
    metadata = known("orders")

    assert next_due_ms(metadata, NOW_MS) == NOW_MS + MAX_AGE_MS
    metadata.add_topic("orders", NOW_MS + MAX_AGE_MS - 1)
    assert asked(metadata, NOW_MS + MAX_AGE_MS) == {"orders"}


def test_a_new_topic_is_asked_about_alone_and_at_once() -> None:
    """The first record of a new topic must not wait for a back-off."""
    metadata = known("orders")

    metadata.add_topic("clicks", NOW_MS + 1)

    assert asked(metadata, NOW_MS + 1) == {"clicks"}
    metadata.handle_response(metadata_response(topic_entry("clicks", [(3, 0)])), NOW_MS + 2)
    assert set(metadata.snapshot.topics) == {"orders", "clicks"}


def test_a_topic_added_while_a_question_is_out_is_next() -> None:
    """It is not in that question, and does not wait a back-off after its response."""
    metadata = make()
    asked(metadata, NOW_MS)
    metadata.add_topic("clicks", NOW_MS)

    metadata.handle_response(metadata_response(), NOW_MS + 1)

    assert asked(metadata, NOW_MS + 1) == {"clicks"}


def test_a_wish_made_while_a_question_is_out_is_kept() -> None:
    """A fault found after the request left may not be in its response."""
    metadata = known("orders")
    metadata.request_update()
    asked(metadata, NOW_MS + BACKOFF_MAX_MS)
    metadata.request_update()

    metadata.handle_response(
        metadata_response(topic_entry("orders", [(3, 6), (2, 5)])), NOW_MS + 2_000
    )

    assert asked(metadata, NOW_MS + 2_000 + BACKOFF_MAX_MS) == {"orders"}


def test_an_unknown_topic_is_asked_about_again_alone() -> None:
    """The others are not fetched with it, and stay as they are."""
    metadata = known("orders")
    metadata.add_topic("missing", NOW_MS)
    asked(metadata, NOW_MS)
    metadata.handle_response(
        metadata_response(topic_entry("missing", [], error_code=3)), NOW_MS + 1
    )

    error = metadata.error_of("missing")
    assert error is not None
    assert error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert asked(metadata, NOW_MS + 1 + BACKOFF_MAX_MS) == {"missing"}
    assert set(metadata.snapshot.topics) == {"orders"}


def test_a_topic_forgotten_for_a_while_comes_back() -> None:
    """A flap removes the topic from the snapshot, nothing else, and the next answer restores it."""
    metadata = known("orders", "clicks")
    metadata.request_update()
    asked(metadata, NOW_MS + 2_000)
    metadata.handle_response(
        metadata_response(topic_entry("orders", [], error_code=3), topic_entry("clicks", [(1, 5)])),
        NOW_MS + 2_000,
    )
    assert set(metadata.snapshot.topics) == {"clicks"}

    assert asked(metadata, NOW_MS + 4_000) == {"orders"}
    metadata.handle_response(metadata_response(topic_entry("orders", [(1, 5)])), NOW_MS + 4_000)

    assert metadata.snapshot.partition_count("orders") == 1
    assert metadata.error_of("orders") is None


def test_a_partition_without_leader_is_asked_about_again() -> None:
    """An election takes a moment; the topic stays known meanwhile."""
    metadata = make()
    metadata.add_topic("orders", NOW_MS)
    asked(metadata, NOW_MS)
    metadata.handle_response(metadata_response(topic_entry("orders", [(1, 5), (-1, 6)])), NOW_MS)

    assert metadata.snapshot.partition_count("orders") == 2
    assert asked(metadata, NOW_MS + BACKOFF_MAX_MS) == {"orders"}


@pytest.mark.parametrize("code", [17, 29])
def test_a_topic_that_time_cannot_mend_is_left_alone(code: int) -> None:
    """An invalid name or a missing right is not asked about again until someone wishes it."""
    metadata = make()
    metadata.add_topic("orders", NOW_MS)
    asked(metadata, NOW_MS)
    metadata.handle_response(metadata_response(topic_entry("orders", [], error_code=code)), NOW_MS)

    assert next_due_ms(metadata, NOW_MS) == NOW_MS + MAX_AGE_MS
    metadata.request_update_for_topic("orders")
    assert asked(metadata, NOW_MS + BACKOFF_MAX_MS) == {"orders"}


def test_waits_grow_while_answers_bring_nothing_new() -> None:
    """Equal answers are asked for less and less often; a change begins again with short waits."""
    metadata = known("orders")
    now_ms, waits_ms = NOW_MS, []
    for _ in range(6):
        metadata.request_update()
        waits_ms.append(metadata.update_due_in_ms(now_ms))
        now_ms += waits_ms[-1]
        assert asked(metadata, now_ms) == {"orders"}
        metadata.handle_response(metadata_response(topic_entry("orders", [(1, 5), (2, 5)])), now_ms)
    assert all(low < high for low, high in itertools.pairwise(waits_ms[1:5]))
    assert waits_ms[0] <= 1.2 * BACKOFF_MS
    assert max(waits_ms) <= BACKOFF_MAX_MS

    metadata.request_update()
    now_ms += metadata.update_due_in_ms(now_ms)
    asked(metadata, now_ms)
    metadata.handle_response(metadata_response(topic_entry("orders", [(3, 6), (2, 5)])), now_ms)
    metadata.request_update()
    assert metadata.update_due_in_ms(now_ms) <= 1.2 * BACKOFF_MS


def test_waits_grow_with_failures_and_the_question_is_repeated() -> None:
    """A lost question is put again, later and later."""
    metadata = make()
    metadata.add_topic("orders", NOW_MS)
    now_ms, waits_ms = NOW_MS, []
    for _ in range(5):
        assert asked(metadata, now_ms) == {"orders"}
        metadata.handle_failure(Disconnected("gone"), now_ms)
        waits_ms.append(metadata.update_due_in_ms(now_ms))
        now_ms += waits_ms[-1]

    assert waits_ms[0] < waits_ms[1] < waits_ms[2] < waits_ms[3]
    assert max(waits_ms) <= BACKOFF_MAX_MS
    assert metadata.trouble() == "gone"


def test_an_answer_without_brokers_is_a_failure() -> None:
    """The snapshot stays; the question is repeated."""
    metadata = known("orders")
    before = metadata.snapshot
    metadata.request_update()
    asked(metadata, NOW_MS + 2_000)

    metadata.handle_response(metadata_response(nodes=()), NOW_MS + 2_000)

    assert metadata.snapshot is before
    assert metadata.version == 1
    assert asked(metadata, NOW_MS + 4_000) == {"orders"}


def test_an_idle_topic_is_forgotten() -> None:
    """A topic that is not sent to for `metadata_max_idle_ms` is no longer asked about."""
    metadata = known("orders", "clicks")
    metadata.add_topic("clicks", NOW_MS + MAX_IDLE_MS - 1)
    metadata.request_update()

    assert asked(metadata, NOW_MS + MAX_IDLE_MS) == {"clicks"}
    metadata.handle_response(
        metadata_response(topic_entry("clicks", [(1, 5)])), NOW_MS + MAX_IDLE_MS
    )

    assert set(metadata.snapshot.topics) == {"clicks"}


def test_leader_hints_change_the_snapshot() -> None:
    """A Produce answer names the new leader; no question is needed."""
    metadata = known("orders")

    assert metadata.apply_leader_hints([LeaderHint("orders", 0, 3, 6)])
    assert metadata.snapshot.topics["orders"].leader_ids == (3, 2)
    assert not metadata.apply_leader_hints([LeaderHint("orders", 0, 2, 6)])


def test_hints_mean_nothing_before_the_first_answer() -> None:
    """Bootstrap nodes lead nothing."""
    assert not make().apply_leader_hints([LeaderHint("orders", 0, 3, 6)], [Node(3, "x", 1)])


def test_an_older_answer_does_not_undo_a_hint() -> None:
    """The broker that responds may not know it yet."""
    metadata = known("orders")
    metadata.apply_leader_hints([LeaderHint("orders", 0, 3, 6)])
    metadata.request_update()
    asked(metadata, NOW_MS + 2_000)

    metadata.handle_response(
        metadata_response(topic_entry("orders", [(1, 5), (2, 5)])), NOW_MS + 2_000
    )

    assert metadata.snapshot.topics["orders"].leader_ids == (3, 2)


def test_rebootstrap_is_due_when_questions_failed_for_long() -> None:
    """Nobody has said anything since the first attempt, for the trigger's time."""
    metadata = known("orders")
    metadata.request_update()
    asked(metadata, NOW_MS + 2_000)
    metadata.handle_failure(Disconnected("gone"), NOW_MS + 3_000)

    assert not metadata.rebootstrap_is_due(NOW_MS + 2_000 + TRIGGER_MS - 1)
    assert metadata.rebootstrap_is_due(NOW_MS + 2_000 + TRIGGER_MS)
    metadata.rebootstrap(NOW_MS + 2_000 + TRIGGER_MS)

    assert metadata.snapshot.is_bootstrap
    assert metadata.snapshot.partition_count("orders") == 2
    assert not metadata.rebootstrap_is_due(NOW_MS + 2_001 + TRIGGER_MS)


def test_rebootstrap_is_due_when_a_broker_demands_it() -> None:
    """Error 129 of version 13."""
    metadata = known("orders")
    metadata.request_update()
    asked(metadata, NOW_MS + 2_000)

    metadata.handle_response(
        metadata_response(error_code=ErrorCode.REBOOTSTRAP_REQUIRED), NOW_MS + 2_000
    )

    assert metadata.rebootstrap_is_due(NOW_MS + 2_000)


def test_rebootstrap_can_be_switched_off() -> None:
    """`metadata_recovery_strategy=none` keeps the known brokers."""
    metadata = make(metadata_recovery_strategy="none")
    asked(metadata, NOW_MS)
    metadata.handle_failure(Disconnected("gone"), NOW_MS)

    assert not metadata.rebootstrap_is_due(NOW_MS + 10 * TRIGGER_MS)


def test_trouble_names_addresses_and_reasons() -> None:
    """The text of a timeout says which address and why, and what the topic's error was."""
    metadata = make()
    metadata.add_topic("missing", NOW_MS)
    asked(metadata, NOW_MS)
    metadata.handle_response(metadata_response(topic_entry("missing", [], error_code=3)), NOW_MS)
    metadata.connection_failures.note("first:1", "connection refused")

    assert "UNKNOWN_TOPIC_OR_PARTITION" in metadata.trouble("missing")
    assert "first:1: connection refused" in metadata.trouble("missing")
    metadata.connection_failures.note("first:1", None)
    assert "first:1" not in metadata.trouble("missing")


def test_connection_errors_are_bounded() -> None:
    """A hostile list of brokers does not grow the list of reasons; the newest stay."""
    metadata = make()
    for port in range(200):
        metadata.connection_failures.note(f"host:{port}", "rejected")

    assert len(metadata.connection_failures.by_address) == KEPT_MAX
    assert "host:199" in metadata.connection_failures.by_address


def test_wait_returns_at_once_when_there_is_news() -> None:
    """A response newer than the caller's version ends the wait before it begins."""
    assert known("orders").wait_for_update(0, 0) == 1


def test_an_answer_that_comes_while_a_thread_begins_to_wait_ends_its_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has woken the waiting threads already; this thread must find it by itself."""

    class RespondingFirst(MetadataWaiters):
        """Lets a response come before the waiter is among those that it wakes."""

        def add(self, waiter: Waiter) -> None:
            asked(metadata, NOW_MS)
            metadata.handle_response(metadata_response(), NOW_MS)
            super().add(waiter)

    monkeypatch.setattr(awaited_version, "MetadataWaiters", RespondingFirst)
    metadata = make()
    waiter = threading.Lock()
    assert not metadata.add_waiter(waiter, 0)
    metadata.remove_waiter(waiter)
    assert len(metadata._waiters) == 0


def test_a_refresh_ends_by_an_answer_that_was_asked_for_after_it() -> None:
    """The question that is out was asked before; the next one serves it, after a back-off."""
    metadata = known("orders")
    metadata.request_update()
    assert asked(metadata, NOW_MS + 2_000) == {"orders"}
    refresh = metadata.request_refresh("orders")
    same = metadata_response(topic_entry("orders", [(1, 5), (2, 5)]))

    metadata.handle_response(same, NOW_MS + 2_000)
    assert not metadata.has_refreshed("orders", refresh)
    assert asked(metadata, NOW_MS + 2_000 + BACKOFF_MAX_MS) == {"orders"}
    metadata.handle_response(same, NOW_MS + 2_000 + BACKOFF_MAX_MS)

    assert metadata.has_refreshed("orders", refresh)
    assert next_due_ms(metadata, NOW_MS + 4_000) > NOW_MS + 4_000 + BACKOFF_MAX_MS


def test_a_refresh_of_a_new_topic_is_asked_for_at_once() -> None:
    """As `add_topic` would, from any thread."""
    metadata = known("orders")
    refresh = metadata.request_refresh("clicks")

    assert metadata.update_due_in_ms(NOW_MS + 1) == 0
    assert asked(metadata, NOW_MS + 1) == {"clicks"}
    metadata.handle_response(metadata_response(topic_entry("clicks", [(3, 0)])), NOW_MS + 2)
    assert metadata.has_refreshed("clicks", refresh)
    assert metadata.is_in_use("clicks")


def test_wait_without_news_times_out_with_reasons() -> None:
    """The error says what is wrong, and no waiter stays behind."""
    metadata = make()
    metadata.connection_failures.note("first:1", "connection refused")

    with pytest.raises(MetadataTimeout, match="first:1: connection refused"):
        metadata.wait_for_update(0, 1)


def test_an_answer_wakes_a_waiting_thread() -> None:
    """The version that woke it is returned."""
    metadata = make()
    versions: list[int] = []
    thread = threading.Thread(target=lambda: versions.append(metadata.wait_for_update(0, 30_000)))
    thread.start()

    asked(metadata, NOW_MS)
    metadata.handle_response(metadata_response(), NOW_MS)
    thread.join(30)

    assert versions == [1]


def test_closing_wakes_a_waiting_thread() -> None:
    """No one waits for a client that is gone."""
    metadata = make()
    errors: list[Exception] = []

    def wait() -> None:
        try:
            metadata.wait_for_update(0, 30_000)
        except ClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    metadata.close()
    thread.join(30)

    assert len(errors) == 1


def test_rejected_credentials_end_waits_until_an_answer() -> None:
    """Time cannot mend them; a response shows that something did."""
    metadata = make()
    metadata.fail_waiters(AuthenticationFailed("bad password"))

    with pytest.raises(AuthenticationFailed, match="bad password"):
        metadata.wait_for_update(0, 30_000)

    asked(metadata, NOW_MS)
    metadata.handle_response(metadata_response(), NOW_MS)
    assert metadata.wait_for_update(0, 0) == 1


def test_topics_are_in_the_answer_s_order() -> None:
    """The effects do not depend on how a process hashes the names."""
    names = [f"topic-{number}" for number in range(50)]
    metadata = make()
    for name in names:
        metadata.add_topic(name, NOW_MS)
    asked(metadata, NOW_MS)
    answered = [topic_entry(name, [(1, 1)]) for name in reversed(names)]
    metadata.handle_response(metadata_response(*answered), NOW_MS)

    assert list(metadata.snapshot.topics) == names[::-1]


def test_an_interrupted_wait_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A KeyboardInterrupt in the sleep gives up the place; answers still come in."""

    class Interrupting:
        """A lock whose acquisition is interrupted, once there is a timeout."""

        def acquire(self, _blocking: bool = True, timeout: float = -1) -> bool:
            if timeout >= 0:
                raise KeyboardInterrupt
            return True

        def release(self) -> None:
            raise AssertionError

    metadata = make()
    monkeypatch.setattr("kprod.cluster.awaited_version.make_lock", Interrupting)

    with pytest.raises(KeyboardInterrupt):
        metadata.wait_for_update(0, 30_000)
    asked(metadata, NOW_MS)
    metadata.handle_response(metadata_response(), NOW_MS)

    assert metadata.version == 1
