"""A simulated member of a group: a small client of raw requests.

It does what a client of Kafka's does: finds the coordinator, joins, assigns if it leads, syncs,
heartbeats, commits and fetches, and begins again as each error says. It is driven by events alone.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.sim.group_book import Commit, codes_of
from tests.sim.group_data import LEVELS, PROTOCOLS, assignment, partitions_of, subscription
from tests.sim.group_faults import loaded_shard
from tests.sim.group_plan import SHARED
from tests.sim.group_wire import Wire
from tests.sim.network import FIRST_PORT
from tests.sim.scheduler import MS, Event

if TYPE_CHECKING:
    from tests.sim.group_book import GroupBook
    from tests.sim.world import World

PAUSE_MS = 20
REQUEST_MS = 400
JOIN_SLACK_MS = 500
_FIND_VERSION = 3
_MANY_GROUPS = 8
_MANY_MEMBERS = 3

Answer = Mapping[str, Any]


class Member:
    """One client.

    Args:
        world: World of the run.
        number: Its number among all clients of the run.
        book: Book of its group.
        group: The group's id.
        instance: Its instance id; None for a dynamic member.
        level: One of `LEVELS`.

    Attributes:
        group: The group's id.
        instance: Its instance id.
        member_id: Id that the coordinator gave it.
        generation: Generation of its last join.
        owned: Partitions that it was assigned.
        phase: "join", "sync" or "stable"; "over" for a client that has left, crashed or was fenced.
        todo: Requests that it sends when it is stable.
        flavour: Part of its metadata.
        proven_ns: When its newest accepted heartbeat was made.
    """

    def __init__(
        self,
        world: "World",
        number: int,
        book: "GroupBook",
        group: str,
        *,
        instance: str | None,
        level: str,
    ) -> None:
        settings = world.plan.groups
        self.group = group
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.owned: list[int] = []
        self.phase = "join"
        self.todo: list[Callable[[], object]] = []
        self.flavour = 0
        self.proven_ns = 0
        self._world = world
        self._number = number
        self._book = book
        self._versions = LEVELS["middle" if instance is not None and level == "low" else level]
        self._session_ms: int = settings["session_ms"]
        self._rebalance_ms: int = settings["rebalance_ms"]
        self._port = 0  # of the coordinator; 0 if it is not known
        self._asked_brokers = number
        self._wire: Wire | None = None
        self._alarm: Event | None = None
        self._frozen_until_ns = 0
        self._thawed_ns = 0  # the end of the last freeze
        self._asked_ns = 0  # when the last request was made
        self._due_ns = 0  # of the next heartbeat
        self._protocol = ""
        self._others: list[str] = []  # members, if it must assign
        self._before: list[str] = []  # ids of its instance that it replaces
        self._go()

    @property
    def is_over(self) -> bool:
        """Whether it does nothing any more."""
        return self.phase == "over"

    @property
    def patience_ns(self) -> int:
        """How long the coordinator waits for it at least."""
        return min(self._session_ms, self._rebalance_ms) * MS

    # Acts.

    def freeze(self, for_ms: int) -> None:
        """Stop as a stopped process does; what arrives is read afterwards."""
        self._frozen_until_ns = self._world.scheduler.now_ns + for_ms * MS
        self._thawed_ns = self._frozen_until_ns

    def thaw(self) -> None:
        """End a freeze."""
        self._frozen_until_ns = 0
        self._later(0)

    def crash(self) -> None:
        """End without a word."""
        self.phase = "over"
        if self._wire is not None:
            self._wire.close()
        if self._alarm is not None:
            self._alarm.is_cancelled = True

    def rejoin(self) -> None:
        """Join again with other metadata, when nothing is in flight."""
        self.flavour += 1
        self.phase = "join"

    def leave(self) -> None:
        """Send a LeaveGroup, and end with its response, or without."""
        body: dict[str, Any] = {"group_id": self.group}
        if self._versions[ApiKey.LEAVE_GROUP] >= _MANY_MEMBERS:
            body["members"] = [self._identity()]
        else:
            body["member_id"] = self.member_id
        self._book.excuse(self.member_id)
        self._ask(ApiKey.LEAVE_GROUP, body, lambda _: self.crash())

    def remove(self, other: "Member") -> None:
        """Send a LeaveGroup that names another member, as an administrator does."""
        if self._versions[ApiKey.LEAVE_GROUP] < _MANY_MEMBERS:
            return
        self._book.removes()
        for member_id in [other.member_id, *self._book.ids_of(other.instance)]:
            self._book.excuse(member_id)
        identity = other._identity()
        if other.instance is not None:
            identity["member_id"] = ""
        body = {"group_id": self.group, "members": [identity]}
        self._ask(ApiKey.LEAVE_GROUP, body, lambda _: self._go())

    def commit(self, partition: int, *, is_stale: bool = False) -> None:
        """Commit another offset; a stale one says the generation before."""
        commit = self._book.commit(partition, is_stale=is_stale)
        body = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation - is_stale,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "topics": [
                {
                    "name": SHARED,
                    "partitions": [
                        {
                            "partition_index": partition,
                            "committed_offset": commit.value,
                            "committed_metadata": "",
                        }
                    ],
                }
            ],
        }
        sent_ns, member_id = self._world.scheduler.now_ns, self.member_id
        self._ask(
            ApiKey.OFFSET_COMMIT,
            body,
            lambda answer: self._committed(answer, commit, sent_ns, member_id),
        )

    def fetch(self) -> None:
        """Fetch the offsets of all partitions."""
        indexes = list(range(self._world.plan.groups["partitions"]))
        asked: dict[str, Any] = {
            "group_id": self.group,
            "topics": [{"name": SHARED, "partition_indexes": indexes}],
        }
        many = self._versions[ApiKey.OFFSET_FETCH] >= _MANY_GROUPS
        sent_ns = self._world.scheduler.now_ns
        self._ask(
            ApiKey.OFFSET_FETCH,
            {"groups": [asked]} if many else asked,
            lambda answer: self._fetched(answer["groups"][0] if many else answer, sent_ns),
        )

    # Requests.

    def _go(self) -> None:
        """Do the next thing, if nothing is in flight."""
        now_ns = self._world.scheduler.now_ns
        if self.is_over or (self._wire is not None and self._wire.is_busy):
            return
        if now_ns < self._frozen_until_ns:
            self._later(self._frozen_until_ns - now_ns)
        elif not self._port:
            self._find()
        elif self.phase == "join":
            self._join()
        elif self.phase == "sync":
            self._sync()
        elif self.todo:
            self.todo.pop(0)()
            self._later(MS)  # in case it has sent nothing
        elif now_ns >= self._due_ns:
            self._heartbeat()
        else:
            self._later(self._due_ns - now_ns)

    def _later(self, delay_ns: int) -> None:
        if self._alarm is not None:
            self._alarm.is_cancelled = True
        self._alarm = self._world.scheduler.after(delay_ns, self._go)

    def _ask(
        self,
        api: ApiKey,
        body: Mapping[str, Any],
        take: Callable[[Answer], object],
        timeout_ms: int = REQUEST_MS,
    ) -> None:
        wire = self._wire
        if wire is None or not wire.is_open or wire.port != self._port:
            if wire is not None:
                wire.close()
            wire = self._wire = Wire(self._world, self._number, self._port, self._lost)
        self._asked_ns = self._world.scheduler.now_ns
        wire.ask(api, self._versions.get(api, _FIND_VERSION), body, take, timeout_ms)

    def _find(self) -> None:
        self._asked_brokers += 1
        self._port = FIRST_PORT + self._asked_brokers % self._world.plan.brokers
        body = {"key": self.group, "key_type": 0}
        self._ask(ApiKey.FIND_COORDINATOR, body, self._found)
        self._port = 0

    def _join(self) -> None:
        names = PROTOCOLS if self._number % 2 else PROTOCOLS[::-1]
        metadata = subscription(self.flavour)
        body = {
            "group_id": self.group,
            "session_timeout_ms": self._session_ms,
            "rebalance_timeout_ms": self._rebalance_ms,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocols": [{"name": it, "metadata": metadata} for it in names],
        }
        self._book.asked_to_join()
        least, before = self._book.synced, self._book.ids_of(self.instance)
        had_id = bool(self.member_id)
        self._ask(
            ApiKey.JOIN_GROUP,
            body,
            lambda answer: self._joined(answer, least, [] if had_id else before),
            # A phase without a member that joins is extended once by its timeout.
            2 * self._rebalance_ms + self._session_ms + JOIN_SLACK_MS,
        )

    def _sync(self) -> None:
        partitions = self._world.plan.groups["partitions"]
        shares: dict[str, list[int]] = {it: [] for it in sorted(self._others)}
        for index in range(partitions if shares else 0):
            shares[list(shares)[index % len(shares)]].append(index)
        body = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocol_name": self._protocol,
            "assignments": [
                {"member_id": key, "assignment": assignment(value)} for key, value in shares.items()
            ],
        }
        timeout_ms = self._rebalance_ms + self._session_ms + JOIN_SLACK_MS
        self._ask(ApiKey.SYNC_GROUP, body, self._synced, timeout_ms)

    def _heartbeat(self) -> None:
        body = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
        }
        sent_ns, member_id = self._world.scheduler.now_ns, self.member_id
        shard = loaded_shard(self._world, self.group)

        def take(answer: Answer) -> None:
            if answer["error_code"] == ErrorCode.NONE:
                # A coordinator that is loading answers NONE to everybody.
                if shard is not None and shard is loaded_shard(self._world, self.group):
                    self._book.heard(member_id, sent_ns)
                self.proven_ns = sent_ns
            self._next_heartbeat()
            self._take_code(answer["error_code"])

        self._ask(ApiKey.HEARTBEAT, body, take)

    def _next_heartbeat(self) -> None:
        self._due_ns = self._world.scheduler.now_ns + self._session_ms * MS // 4

    def _identity(self) -> dict[str, Any]:
        return {"member_id": self.member_id, "group_instance_id": self.instance}

    # Responses.

    def _found(self, answer: Answer) -> None:
        if answer["error_code"] == ErrorCode.NONE:
            self._port = answer["port"]
            self._go()
        else:
            self._later(PAUSE_MS * MS)

    def _joined(self, answer: Answer, least: int, before: list[str]) -> None:
        code = answer["error_code"]
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer["member_id"]
            self._note_known()
            self._go()
            return
        if code != ErrorCode.NONE:
            self._take_code(code)
            return
        self.member_id, self.generation = answer["member_id"], answer["generation_id"]
        self._note_known()
        self._protocol = answer["protocol_name"]
        self._others = [it["member_id"] for it in answer["members"]]
        if answer.get("skip_assignment"):
            self._others = []
        self._before = before
        self._book.joined(self.member_id, self.instance, self.generation, least)
        self.phase = "sync"
        self._go()

    def _note_known(self) -> None:
        """Note that its session has just begun, unless the response was read late."""
        if self._thawed_ns <= self._asked_ns:
            self._book.knows(self.member_id, self._world.scheduler.now_ns)

    def _synced(self, answer: Answer) -> None:
        if answer["error_code"] == ErrorCode.NONE:
            self.owned = partitions_of(answer["assignment"])
            self._book.synced_in(self.member_id, self.instance, self.generation, self.owned)
            self._book.replaced([it for it in self._before if it != self.member_id])
            self.phase = "stable"
            self._next_heartbeat()
        self._take_code(answer["error_code"])

    def _committed(self, answer: Answer, commit: Commit, sent_ns: int, member_id: str) -> None:
        code = codes_of(answer)[commit.partition]
        self._book.committed(commit, code)
        if code == ErrorCode.NONE and not commit.is_stale:
            self._book.accepted(member_id, sent_ns)
        self._take_code(ErrorCode.NONE if commit.is_stale else code)

    def _fetched(self, answer: Answer, sent_ns: int) -> None:
        partitions = [it for topic in answer["topics"] for it in topic["partitions"]]
        codes = [answer.get("error_code", 0), *(it["error_code"] for it in partitions)]
        if any(codes):
            self._take_code(next(filter(None, codes)))
            return
        for it in partitions:
            self._book.fetched(it["partition_index"], it["committed_offset"], sent_ns)
        self._world.count("group offsets were fetched")
        self._go()

    def _take_code(self, code: int) -> None:
        """Do what an error says, or the next thing."""
        pause_ms = 0
        if code:
            self._world.count(f"group code {int(code)}")
        if code in {
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        }:
            self._port, pause_ms = 0, PAUSE_MS
        elif code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._book.removed(self.member_id, self.patience_ns)
            if self.phase != "stable" and self._world.is_faultless:
                self._book.unknown_at(self.member_id, self._asked_ns, self.patience_ns // 2)
            self.member_id, self.phase = "", "join"
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            self.crash()
        elif code:
            self.phase, pause_ms = "join", 0 if code in _JOIN_AGAIN else PAUSE_MS
        if pause_ms:
            self._later(pause_ms * MS)
        else:
            self._go()

    def _lost(self, unanswered: str, asked_ns: int) -> None:
        """Find the coordinator again.

        G6: a request is answered, unless something can have lost it.
        """
        self._wire, self._port = None, 0
        self._world.count("group connection was lost")
        if unanswered and self._world.groups.is_owed(asked_ns):
            text = f"{unanswered} of {self.member_id or self._number} stays without a response"
            self._world.find("G6", text)
        self._later(PAUSE_MS * MS)


_JOIN_AGAIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})
