"""Commits offsets: one request at a time, so that no older commit overwrites a newer one.

Commits that are posted while a request is in flight wait, and go out as one request in which the
newest offset of each partition wins. A request that failed for a passing reason is sent again,
together with the commits that were posted meanwhile.

Thread-safety: the I/O thread.
Source: Kafka ConsumerCoordinator, OffsetCommitResponseHandler (clients 4.3.1).
"""

import random
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kprod._core.wire.wire_bounds import Bounds
from kprod.cluster.backoff import ExponentialBackoff
from kprod.config.settings_slices import GroupSettings
from kprod.consumer.group.coordinator_link import (
    FOREVER_MS,
    CoordinatorLink,
    CoordinatorRequest,
)
from kprod.consumer.group.member_requests import Identity
from kprod.consumer.group.member_state import MemberState
from kprod.consumer.group.member_texts import fenced_error
from kprod.consumer.group.membership import Membership
from kprod.consumer.group.topic_ids import TopicIds, names_by_id
from kprod.consumer.partition_texts import named
from kprod.errors import (
    BrokerError,
    CommitFailed,
    CommitRetriable,
    ConnectionFailed,
    KprodError,
    KprodTimeout,
    RemoteProtocolError,
    RequestTimeout,
    own_copy,
)
from kprod.model import OffsetAndMetadata, TopicPartition
from kprod.network.client_request import ANSWER_BYTES, Outcome
from kprod.protocol.api import ApiKey
from kprod.protocol.denials import denial_or_error
from kprod.protocol.error_table import ErrorCode, error_for

_FIRST_VERSION, _FIRST_STATIC_VERSION = 2, 7
_LAST_WITH_NAMES, _LAST_VERSION = 9, 10  # version 10 has topic ids instead
_FIRST_WITH_EPOCH = 6
_LAST_WITH_RETENTION = 4
_PARTITION_BYTES = 512
_MOVED = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_LOST = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})
_OF_MEMBER = _LOST | {ErrorCode.FENCED_INSTANCE_ID, ErrorCode.REBALANCE_IN_PROGRESS}


class Commit:
    """Offsets to commit.

    Attributes:
        offsets: Offsets by partition; at least one.
        until_ms: Monotonic time after which it fails.
        on_done: Called once, with the error or None; again if it raises an exception.
        identity: The member that commits; set when it is posted.
        error: The newest passing failure.
        waits_for_topics: Whether it is sent again while the coordinator does not know a topic,
            which may be new; else its other offsets are committed, and it fails.
    """

    __slots__ = ("error", "identity", "offsets", "on_done", "until_ms", "waits_for_topics")

    def __init__(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        until_ms: int,
        on_done: Callable[[KprodError | None], object],
        *,
        waits_for_topics: bool = True,
    ) -> None:
        """Create a commit that was not posted."""
        self.waits_for_topics: bool = waits_for_topics
        self.offsets: Mapping[TopicPartition, OffsetAndMetadata] = offsets
        self.until_ms: int = until_ms
        self.on_done: Callable[[KprodError | None], object] = on_done
        self.identity: Identity = Identity()
        self.error: KprodError | None = None


class Commits:
    """The commits of one consumer.

    Attributes:
        count: Number of requests that were answered.
        latency_ms_total: Sum of their times.
        latency_ms_max: The longest time.
    """

    def __init__(  # noqa: PLR0913 - the collaborators of a request
        self,
        settings: GroupSettings,
        link: CoordinatorLink,
        membership: Membership,
        *,
        is_owned: Callable[[TopicPartition], bool],
        topic_ids: TopicIds,
        backoff: ExponentialBackoff,
        rng: random.Random,
    ) -> None:
        """Start without commits.

        Args:
            settings: The group's settings.
            link: The coordinator.
            membership: The consumer's membership.
            is_owned: Whether a partition is assigned.
            topic_ids: Provides the topics' ids.
            backoff: Delay between attempts.
            rng: Random numbers for jitter.
        """
        self._settings = settings
        self._group_id = settings.group_id
        self._instance_id = settings.group_instance_id or None
        self._link = link
        self._membership = membership
        self._is_owned = is_owned
        self._topic_ids = topic_ids
        self._backoff = backoff
        self._rng = rng
        self._waiting: list[Commit] = []
        self._sent: list[Commit] = []
        self._kept: list[Commit] = []  # of a request whose commits are being settled
        self._retry_at_ms = 0
        self._failures = 0
        self.count: int = 0
        self.latency_ms_total: int = 0
        self.latency_ms_max: int = 0

    @property
    def is_idle(self) -> bool:
        """Whether no commit waits or is in flight."""
        return not self._waiting and not self._sent and not self._kept

    def post(self, commit: Commit) -> None:
        """Send a commit at the next opportunity; `on_done` is called once.

        Args:
            commit: A commit that was not posted before.
        """
        commit.identity = self._membership.identity
        if self._membership.error is not None:
            commit.on_done(own_copy(self._membership.error))
        elif self._membership.state is MemberState.LEFT:
            self._waiting.append(commit)  # partitions that were assigned by hand
        else:
            lost = [key for key in commit.offsets if not self._is_owned(key)]
            if lost or not commit.identity.is_member:
                commit.on_done(self._late(commit, lost or list(commit.offsets)))
            else:
                self._waiting.append(commit)

    def run(self, now_ms: int) -> int:
        """Send the waiting commits.

        Args:
            now_ms: Monotonic time.

        Returns:
            Milliseconds until the next action; events may come earlier.
        """
        if not self._waiting:
            return FOREVER_MS
        self._drop_overdue(now_ms)
        self._drop_late()
        if not self._waiting or self._sent:
            return FOREVER_MS
        wait_ms = min(each.until_ms for each in self._waiting) - now_ms
        if now_ms < self._retry_at_ms:
            return min(wait_ms, self._retry_at_ms - now_ms)
        if not self._link.ready(now_ms):
            return min(wait_ms, self._link.wait_ms(now_ms))
        self._sent, self._waiting = self._waiting, []
        ids = self._topic_ids.of({key.topic for each in self._sent for key in each.offsets})
        names = names_by_id(ids)
        self._link.send(self._request(ids), lambda outcome: self._complete(outcome, names), now_ms)
        return FOREVER_MS

    def fail_all(self, error: KprodError) -> None:
        """End all commits, because the consumer has ended.

        Args:
            error: The reason.
        """
        ended = self._kept + self._sent + self._waiting
        self._kept, self._sent, self._waiting = [], [], []
        for each in ended:
            each.on_done(own_copy(each.error or error))

    def overdue(self, commit: Commit) -> KprodTimeout:
        """Create the error of a commit whose time is over; any thread.

        Args:
            commit: A commit that was posted.

        Returns:
            The error.
        """
        reason = commit.error or self._link.trouble
        return KprodTimeout(f"{self._text_of(commit)} was not confirmed in time: {reason}")

    def _drop_overdue(self, now_ms: int) -> None:
        for each in [it for it in self._waiting if it.until_ms <= now_ms]:
            self._waiting.remove(each)
            each.on_done(self.overdue(each))

    def _drop_late(self) -> None:
        """End the commits that the coordinator must not get any more, or not now."""
        for each in list(self._waiting):
            is_same = each.identity == self._membership.identity
            if is_same and not self._membership.is_between_generations:
                continue
            self._waiting.remove(each)
            if is_same:
                each.on_done(
                    CommitRetriable(
                        f"{self._text_of(each)} must wait, since the group is rebalancing: poll,"
                        " then commit the positions of partitions that are still assigned"
                    )
                )
            else:
                each.on_done(self._late(each, list(each.offsets)))

    def _request(self, ids: Mapping[str, uuid.UUID]) -> CoordinatorRequest:
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for each in self._sent:
            offsets.update(each.offsets)
        identity = self._sent[-1].identity
        body = {
            "group_id": self._group_id,
            "generation_id_or_member_epoch": identity.generation,
            "member_id": identity.member_id,
        }
        if identity.is_member:
            body["group_instance_id"] = self._instance_id

        def shape(version: int) -> dict[str, Any]:
            topics: dict[str, list[dict[str, Any]]] = {}
            for key, it in offsets.items():
                entry = {
                    "partition_index": key.partition,
                    "committed_offset": it.offset,
                    "committed_metadata": it.metadata,
                }
                if version >= _FIRST_WITH_EPOCH:
                    entry["committed_leader_epoch"] = it.leader_epoch
                topics.setdefault(key.topic, []).append(entry)
            has_ids = version > _LAST_WITH_NAMES
            named_topics = [
                {"topic_id": ids[name]} if has_ids else {"name": name} for name in topics
            ]
            entries = [
                {**topic, "partitions": each}
                for topic, each in zip(named_topics, topics.values(), strict=True)
            ]
            return {**body, "topics": entries}

        return CoordinatorRequest(
            ApiKey.OFFSET_COMMIT,
            (
                _FIRST_STATIC_VERSION if body.get("group_instance_id") else _FIRST_VERSION,
                _LAST_VERSION if ids else _LAST_WITH_NAMES,
            ),
            shape,
            bounds=Bounds(
                memory_bytes=ANSWER_BYTES + _PARTITION_BYTES * len(offsets),
                totals={"topics": len(offsets), "partitions": len(offsets)},
            ),
        )

    def _complete(self, outcome: Outcome, names: Mapping[uuid.UUID, str]) -> None:
        if not self._sent and not self._kept:
            return  # `fail_all` has ended them
        if outcome.body is None:
            self._settle(outcome.error or KprodError("no response"), {}, outcome.now_ms)
            return
        self.count += 1
        self.latency_ms_total += outcome.latency_ms
        self.latency_ms_max = max(self.latency_ms_max, outcome.latency_ms)
        has_ids = outcome.version > _LAST_WITH_NAMES
        codes = {
            TopicPartition(
                names.get(topic["topic_id"], "") if has_ids else topic["name"],
                each["partition_index"],
            ): each["error_code"]
            for topic in outcome.body["topics"]
            for each in topic["partitions"]
        }
        if ErrorCode.UNKNOWN_TOPIC_ID in codes.values():
            self._topic_ids.renew()
        identity = self._sent[-1].identity
        self._settle(None, codes, outcome.now_ms)
        self._tell_member(identity, codes.values(), outcome.now_ms)

    def _tell_member(self, identity: Identity, codes: Iterable[int], now_ms: int) -> None:
        """Tell the membership what the coordinator says of the member; a join says it by itself."""
        if not self._membership.is_between_generations:
            for code in _OF_MEMBER.intersection(codes):
                self._membership.take_error(error_for(code), identity, now_ms)

    def _settle(
        self, failure: KprodError | None, codes: Mapping[TopicPartition, int], now_ms: int
    ) -> None:
        """End the sent commits, or keep those that failed for a passing reason.

        Each stays in `_sent` until it is settled: after an exception the next call does the rest.
        Those that are kept stay in their order, so that the newest offset is the last.
        """
        while self._sent:
            each = self._sent[0]
            error = failure
            for key in each.offsets:
                error = error or self._error_of(each, key, codes.get(key))
            if error is not None and _is_passing(error, each):
                each.error = error
                self._kept.append(each)
            else:
                each.on_done(error if error is None else own_copy(error))
            del self._sent[0]
        self._waiting[:0] = kept = self._kept
        self._kept = []
        if not kept:
            self._failures = 0
            if failure is None:
                self._link.works()
            return
        self._retry_at_ms = now_ms + max(1, self._backoff.wait_ms(self._failures, self._rng))
        self._failures += 1
        if any(_has_moved(each.error) for each in kept):
            self._link.lose(now_ms)

    def _error_of(self, commit: Commit, key: TopicPartition, code: int | None) -> KprodError | None:
        if code is None:
            return RemoteProtocolError(f"an OffsetCommit response leaves out {named([key])}")
        return self._rejection(commit, key, code) if code else None

    def _rejection(self, commit: Commit, key: TopicPartition, code: int) -> KprodError:
        if code in _LOST:
            return self._late(commit, list(commit.offsets))
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            return CommitRetriable(
                f"{self._text_of(commit)} was rejected, since the group is rebalancing: poll, then"
                " commit the positions of partitions that are still assigned"
            )
        if code == ErrorCode.FENCED_INSTANCE_ID:
            return fenced_error(self._settings)
        if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return denial_or_error(code, "READ", self._group_id)
        return denial_or_error(code, "READ", key.topic, message=named([key]))

    def _late(self, commit: Commit, keys: list[TopicPartition]) -> CommitFailed:
        now = self._membership.identity
        state = f"is in generation {now.generation}" if now.is_member else "has left the group"
        error = CommitFailed(
            f"{self._text_of(commit)} comes too late: {named(keys)} may belong to another member,"
            f" which reads on from the offsets committed before, and this one {state}. If work"
            " takes longer than max_poll_interval_ms between two polls, raise that, lower"
            " max_poll_records, or call progress()"
        )
        error.partitions = tuple((key.topic, key.partition) for key in keys)
        return error

    def _text_of(self, commit: Commit) -> str:
        (key, it), *more = commit.offsets.items()
        others = f" and {len(more)} more" if more else ""
        identity = commit.identity
        generation = f" in generation {identity.generation}" if identity.is_member else ""
        return (
            f"the commit of {key.topic}-{key.partition} at offset {it.offset}{others} for group"
            f" {self._group_id!r}{generation}"
        )


def _is_passing(error: KprodError, commit: Commit) -> bool:
    if isinstance(error, (ConnectionFailed, RequestTimeout)):
        return error.retriable
    if not isinstance(error, BrokerError):
        return False
    if error.code in _UNKNOWN:
        return commit.waits_for_topics
    return error.code in _MOVED or error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def _has_moved(error: KprodError | None) -> bool:
    return not isinstance(error, BrokerError) or error.code in _MOVED
