"""The groups of one partition of `__consumer_offsets`, while one broker leads it.

A shard is created when a broker becomes leader, from the log alone, and ends with the leadership.
State that is not in the log (assigned ids, parked joins) is lost when a coordinator moves, and
clients start again.

Invariants.
    After `unload` no request is parked, no timer of a group runs, and nothing is written.

Thread-safety: the broker's thread.
Source: Kafka GroupCoordinatorShard and CoordinatorRuntime (4.3.1).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kprod._core.record.batch_reader import RecordBatch
from kprod.broker.group.classic_group import Group
from kprod.broker.group.context import CoordinatorContext
from kprod.broker.group.group_record import group_fields, group_of
from kprod.broker.group.member_memory import MemberMemory
from kprod.broker.group.offsets import NO_PRODUCER_ID, OffsetTable
from kprod.broker.group.offsets_log import Done, OffsetsLog
from kprod.broker.group.records import GroupValue, decoded, group_record
from kprod.broker.group.state import GroupState
from kprod.broker.replication import Partition
from kprod.errors import RemoteProtocolError
from kprod.guarded_log import guarded_logger
from kprod.model import Record
from kprod.record.control import ControlType, decode_marker
from kprod.timer.purgatory import Purgatory

if TYPE_CHECKING:
    from kprod.broker.config import EmbeddedConfig
    from kprod.broker.delayed.delayed_heartbeat import DelayedHeartbeat
    from kprod.broker.delayed.delayed_join import DelayedJoin
    from kprod.broker.delayed.delayed_sync import DelayedSync

_logger = guarded_logger(__name__)


ExpireSession = Callable[["CoordinatorShard", Group, str], object]


class Waiting:
    """The purgatories that all shards share.

    Attributes:
        joins: Join phases.
        syncs: Waits for syncs.
        sessions: Members' sessions.
    """

    __slots__ = ("joins", "sessions", "syncs")

    def __init__(self, context: CoordinatorContext) -> None:
        """Create empty purgatories on the cluster's timer."""
        self.joins: Purgatory[DelayedJoin] = Purgatory("join", context.timer)
        self.syncs: Purgatory[DelayedSync] = Purgatory("sync", context.timer)
        self.sessions: Purgatory[DelayedHeartbeat] = Purgatory("session", context.timer)


class CoordinatorShard:
    """The groups and offsets of one partition.

    Attributes:
        config: The cluster's settings.
        leadership: The leader and the leader epoch that the shard belongs to.
        groups: Groups by id.
        offsets: Their committed offsets.
        log: The log that changes are written to.
        waiting: The delayed operations.
        memory: The memory of all groups' members.
        may_load: Whether `coordinator_loading_ms` are over.
        is_loaded: Whether the log was replayed; until then requests get a retriable error.
        new_id: Creates member ids.
        expire_session: Removes a member, or an assigned id, whose session has expired.
    """

    __slots__ = (
        "_context",
        "_unknown_types",
        "config",
        "expire_session",
        "groups",
        "is_loaded",
        "leadership",
        "log",
        "may_load",
        "memory",
        "new_id",
        "offsets",
        "waiting",
    )

    def __init__(
        self,
        context: CoordinatorContext,
        partition: Partition,
        waiting: Waiting,
        *,
        memory: MemberMemory,
        new_id: Callable[[str], str],
        expire_session: "ExpireSession",
    ) -> None:
        """Create a shard that has not read its log yet.

        Args:
            context: The cluster.
            partition: A partition of `__consumer_offsets`; its leader is the coordinator.
            waiting: The coordinator's delayed operations.
            memory: See the attribute.
            new_id: Creates a member id with a given prefix.
            expire_session: See the attribute.
        """
        self._context = context
        self.config: EmbeddedConfig = context.config
        self.leadership: tuple[int, int] = (partition.leader_id, partition.leader_epoch)
        self.groups: dict[str, Group] = {}
        self.offsets: OffsetTable = OffsetTable()
        self.log: OffsetsLog = OffsetsLog(context, partition)
        self.waiting: Waiting = waiting
        self.memory: MemberMemory = memory
        self.may_load: bool = False
        self.is_loaded: bool = False
        self._unknown_types: set[int] = set()
        self.new_id: Callable[[str], str] = new_id
        self.expire_session: ExpireSession = expire_session

    @property
    def timestamp_ms(self) -> int:
        """Wall clock, milliseconds since 1970."""
        return self._context.clock.timestamp_ms()

    def group_or_new(self, group_id: str) -> Group:
        """Return the group with an id; creates it if necessary."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id, self.timestamp_ms, self.memory)
        return group

    def write_group(
        self,
        group: Group,
        done: Done,
        assignments: dict[str, bytes] | None = None,
    ) -> None:
        """Write a group's record.

        Args:
            group: The group.
            done: See `Done`.
            assignments: Assignments by member id; None for the members' own.
        """
        chosen = group.assignments() if assignments is None else assignments
        record = group_record(group.group_id, group_fields(group, chosen))
        self.log.append([record], done)

    def move(self, group: Group, state: GroupState) -> None:
        """Change a group's state."""
        group.move(state, self.timestamp_ms)

    def load(self) -> None:
        """Replay the log."""
        for batch in self.log.batches():
            if batch.is_control:
                self._replay_marker(batch)
                continue
            producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER_ID
            for record in batch:
                self._replay(record, producer_id)
        # A group that only has offsets has no group record.
        for group_id in self.offsets.group_ids():
            self.group_or_new(group_id)
        self.is_loaded = True

    def unload(self, answer_parked: Callable[[Group], object]) -> None:
        """Unload: respond to parked requests, stop timers, discard the state.

        Args:
            answer_parked: Responds to a group's parked requests and stops its timers.
        """
        self.log.is_open = False
        self.is_loaded = False
        for group in self.groups.values():
            answer_parked(group)
            self.move(group, GroupState.DEAD)
            group.release()
        self.groups.clear()

    def _replay(self, stored: Record, producer_id: int) -> None:
        key = stored.key or b""
        try:
            record = decoded(key, stored.value, stored.offset)
        except RemoteProtocolError as error:
            _logger.warning("skipping record %d of __consumer_offsets: %s", stored.offset, error)
            return
        if record is None:
            record_type = int.from_bytes(key[:2])
            if record_type not in self._unknown_types:
                self._unknown_types.add(record_type)
                _logger.warning("skipping records of type %d of __consumer_offsets", record_type)
        elif isinstance(record, GroupValue):
            before = self.groups.pop(record.group_id, None)
            if before is not None:
                before.release()
            if record.fields is not None:
                self.groups[record.group_id] = group_of(
                    record.group_id, record.fields, self.timestamp_ms, self.memory
                )
        elif record.offset is None:
            self.offsets.remove(record.key)
        else:
            self.offsets.put(record.key, record.offset, producer_id)

    def _replay_marker(self, batch: RecordBatch) -> None:
        for record in batch:
            marker = decode_marker(record)
            if marker is not None:
                self.offsets.end_transaction(
                    batch.producer_id, is_commit=marker.control_type is ControlType.COMMIT
                )
