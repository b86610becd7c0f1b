"""A commit's completion that is called again after an exception: the order, and the callbacks."""

import random
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from kprod.cluster.backoff import ExponentialBackoff
from kprod.consumer.consumer_face import engine_of
from kprod.consumer.group.commits import Commit, Commits
from kprod.consumer.group.member_requests import Identity
from kprod.consumer.group.member_state import MemberState
from kprod.errors import Disconnected, KprodError
from kprod.model import OffsetAndMetadata, TopicPartition
from kprod.network.client_request import Outcome
from kprod.protocol.error_table import ErrorCode
from tests.consumer.group.virtual_group import VirtualGroup

T0 = TopicPartition("orders", 0)
LOADING = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class Link:
    """A coordinator that is ready; keeps what it is asked."""

    trouble = ""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, Callable[[Outcome], object]]] = []

    def ready(self, _now_ms: int) -> bool:
        """Whether requests may be sent."""
        return True

    def send(self, request: Any, on_complete: Callable[[Outcome], object], _now_ms: int) -> None:
        """Keep a request."""
        self.sent.append((request, on_complete))

    def lose(self, _now_ms: int) -> None:
        """Ignore that the coordinator moved."""

    def works(self) -> None:
        """Ignore a success."""


def _outcome(code: int | None) -> Outcome:
    parts: dict[str, Any] = {
        "node_id": 1,
        "version": 5,
        "was_written": True,
        "latency_ms": 1,
        "now_ms": 10,
    }
    if code is None:
        return Outcome(**parts, error=Disconnected("no memory"))
    entry = {"partition_index": 0, "error_code": code}
    return Outcome(**parts, body={"topics": [{"name": "orders", "partitions": [entry]}]})


@pytest.mark.parametrize("failing_call", [1, 2])
def test_commits_that_are_sent_again_keep_their_order(failing_call: int) -> None:
    """The newest offset is sent last, whichever of them the exception has met."""
    link: Any = Link()
    membership: Any = SimpleNamespace(
        identity=Identity("m", 1),
        error=None,
        state=MemberState.STABLE,
        is_between_generations=False,
    )
    ids: Any = SimpleNamespace(of=lambda _names: {}, renew=lambda: None)
    settings: Any = SimpleNamespace(group_id="g", group_instance_id="")
    commits: Any = Commits(
        settings,
        link,
        membership,
        is_owned=lambda _key: True,
        topic_ids=ids,
        backoff=ExponentialBackoff(1, 1),
        rng=random.Random(1),
    )
    results: dict[int, KprodError | None] = {}
    for offset in (5, 9):
        done = partial(results.__setitem__, offset)
        commits.post(Commit({T0: OffsetAndMetadata(offset)}, 10**9, done))
    commits.run(0)
    calls: list[int] = []
    rejection = commits._error_of

    def short_once(*given: object) -> object:
        calls.append(1)
        if len(calls) == failing_call:
            raise MemoryError
        return rejection(*given)

    commits._error_of = short_once
    _, complete = link.sent.pop()
    with pytest.raises(MemoryError):
        complete(_outcome(LOADING))
    complete(_outcome(None))

    commits.run(10**6)
    request, complete = link.sent.pop()
    (topic,) = request.shape(5)["topics"]
    assert topic["partitions"][0]["committed_offset"] == 9
    complete(_outcome(0))
    assert results == {5: None, 9: None}
    assert commits.is_idle


def test_a_callback_is_called_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception after it was put into the queue does not put it there again."""
    told: list[object] = []
    raised: list[int] = []
    with VirtualGroup(1) as group:
        group.fill(4, 0)
        one = group.member("orders", enable_auto_commit=False)
        assert group.poll(one, seconds=3)[one]
        calls = engine_of(one).committing
        mailbox = calls._parts.mailbox

        class ShortMailbox:
            """The mailbox, which cannot take the first step."""

            def hand(self, step: Callable[[], object]) -> None:
                """Raise once."""
                if not raised:
                    raised.append(1)
                    raise MemoryError
                mailbox.hand(step)

            def __getattr__(self, name: str) -> object:
                return getattr(mailbox, name)

        class Parts:
            """The consumer's parts, with that mailbox."""

            def __init__(self, below: object) -> None:
                self._below = below
                self.mailbox = ShortMailbox()

            def __getattr__(self, name: str) -> object:
                return getattr(self._below, name)

        monkeypatch.setattr(calls, "_parts", Parts(calls._parts))
        one.commit_async(callback=lambda _offsets, error: told.append(error))
        group.poll(one, seconds=5)
    assert raised == [1]
    assert told == [None]
