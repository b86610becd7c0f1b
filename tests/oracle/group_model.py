"""The rules of a group as plain dicts: slow, literal, written from the table and not the code.

Requests have numbers; `answers` collects what each was answered. A request that waits has no entry.

Source: Kafka GroupMetadataManager (4.3.1) as the project's table of states and events has it.
"""

from typing import Any

UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS = 25, 22, 27
INCONSISTENT_GROUP_PROTOCOL, MEMBER_ID_REQUIRED, FENCED_INSTANCE_ID = 23, 79, 82
NOT_COORDINATOR, NEW_MEMBER_MS = 16, 300_000
NEVER = 2**62

Fields = dict[str, Any]


class GroupModel:
    """One group."""

    def __init__(self, initial_delay_ms: int) -> None:
        """Start without a group."""
        self.now = 0
        self.initial_delay_ms = initial_delay_ms
        self.exists = False
        self.state = "Empty"
        self.generation = 0
        self.leader: str | None = None
        self.kind: str | None = None
        self.protocol: str | None = None
        self.members: dict[str, Fields] = {}
        self.pending: dict[str, int] = {}
        self.unsynced: set[str] = set()
        self.join_end = self.sync_end = NEVER
        self.initial_left: int | None = None
        self.initial_delay = 0
        self.came = False
        self.offsets: dict[int, int] = {}
        self.answers: dict[int, tuple[Any, ...]] = {}

    # Requests.

    def join_new(self, number: int, member_id: str, fields: Fields, *, asks_id: bool) -> None:
        """A join without an id; `member_id` is what the coordinator will call it."""
        self.exists = True
        if not self._fits(fields):
            self.answers[number] = (INCONSISTENT_GROUP_PROTOCOL,)
            return
        instance = fields["instance"]
        known = next(
            (k for k, m in self.members.items() if instance and m["instance"] == instance), None
        )
        if known is not None:
            self._replace(number, known, member_id, fields)
        elif asks_id and instance is None:
            self.pending[member_id] = self.now + fields["session"]
            self.answers[number] = (MEMBER_ID_REQUIRED, member_id)
        else:
            self._add(number, member_id, fields)

    def join_known(self, number: int, member_id: str, fields: Fields) -> None:
        """A join with an id."""
        if not self.exists:
            self.answers[number] = (UNKNOWN_MEMBER_ID,)
        elif not self._fits(fields):
            self.answers[number] = (INCONSISTENT_GROUP_PROTOCOL,)
        elif member_id in self.pending:
            self._add(number, member_id, fields)
        elif (code := self._wrong(member_id, fields["instance"])) or self.state == "Empty":
            self.answers[number] = (code or UNKNOWN_MEMBER_ID,)
        else:
            member = self.members[member_id]
            same = member["protocols"] == fields["protocols"]
            leads = member_id == self.leader
            if (
                self.state != "PreparingRebalance"
                and same
                and not (leads and self.state == "Stable")
            ):
                self.answers[number] = self._joined(member_id)
                return
            self._park(member_id, number, fields)
            self._changed()

    def sync(
        self, number: int, member_id: str, generation: int, assignments: dict[str, bytes]
    ) -> None:
        """A sync."""
        code = self._checked(member_id, generation)
        if code == 0 and self.state in {"Empty", "PreparingRebalance"}:
            code = UNKNOWN_MEMBER_ID if self.state == "Empty" else REBALANCE_IN_PROGRESS
        if code:
            self.answers[number] = (code,)
            return
        member = self.members[member_id]
        self.unsynced.discard(member_id)
        if not self.unsynced:
            self.sync_end = NEVER
        if self.state == "Stable":
            self.answers[number] = (0, member["assignment"])
            return
        if member["sync"] is not None:
            self.answers[member["sync"]] = (REBALANCE_IN_PROGRESS,)
        member["sync"] = number
        if member_id == self.leader:
            self.state = "Stable"
            for key, it in self.members.items():
                it["assignment"] = assignments.get(key, b"")
                if it["sync"] is not None:
                    self.answers[it["sync"]] = (0, it["assignment"])
                    it["sync"] = None
                    it["until"] = self.now + it["session"]
            self.log()

    def heartbeat(self, number: int, member_id: str, generation: int) -> None:
        """A heartbeat."""
        code = self._checked(member_id, generation)
        if code == 0:
            self.members[member_id]["until"] = self.now + self.members[member_id]["session"]
            code = REBALANCE_IN_PROGRESS if self.state == "PreparingRebalance" else 0
        self.answers[number] = (code,)

    def leave(self, number: int, member_id: str) -> None:
        """A leave of one."""
        if member_id in self.pending:
            del self.pending[member_id]
        elif member_id in self.members:
            self._remove(member_id)
        else:
            self.answers[number] = (UNKNOWN_MEMBER_ID,)
            return
        self.answers[number] = (0,)
        if self.state != "Empty":
            self._changed()

    def commit(self, number: int, member_id: str, generation: int, offset: int) -> None:
        """A commit of a member, or of nobody (generation −1)."""
        code = 0
        if not self.exists:
            code = 69 if generation >= 0 else 0
            self.exists = self.exists or generation < 0
        elif generation < 0 and self.state == "Empty":
            pass
        elif generation < 0 and not member_id:
            code = UNKNOWN_MEMBER_ID
        else:
            code = self._checked(member_id, generation)
            if code == 0 and self.state == "CompletingRebalance":
                code = REBALANCE_IN_PROGRESS
            if code == 0:
                self.members[member_id]["until"] = self.now + self.members[member_id]["session"]
        if code == 0:
            self.offsets[0] = offset
        self.answers[number] = (code,)

    def advance(self, to: int) -> None:
        """Let time pass, and everything that is due on the way happen at its time."""
        while True:
            due = [(m["until"], k) for k, m in self.members.items()]
            due += [(until, k) for k, until in self.pending.items()]
            due += [(self.join_end, ""), (self.sync_end, "")]
            until, key = min(due)
            if until > to:
                break
            self.now = until
            self._due(key, until)
        self.now = to

    def reload(self) -> None:
        """The coordinator moves: only the log's contents are left."""
        for member in self.members.values():
            for kind in ("join", "sync"):
                if member[kind] is not None:
                    self.answers[member[kind]] = (NOT_COORDINATOR,)
        self.pending.clear()
        self.join_end = self.sync_end = NEVER
        self.__dict__.update(self.logged_state())
        for member in self.members.values():
            member["until"] = self.now + member["session"]

    # Contents of the log; kept by the two writers below.

    logged: Fields | None = None

    def log(self) -> None:
        """Take down what a record of the group says now."""
        protocol = self.protocol
        self.logged = {
            "generation": self.generation,
            "leader": self.leader,
            "kind": self.kind,
            "protocol": protocol,
            "members": {
                key: {
                    **it,
                    "protocols": tuple(p for p in it["protocols"] if p[0] == protocol),
                    "join": None,
                    "sync": None,
                    "new": False,
                }
                for key, it in self.members.items()
            },
        }

    def logged_state(self) -> Fields:
        """The group as a replay finds it."""
        logged = self.logged or {
            "generation": 0, "leader": None, "kind": None, "protocol": None, "members": {}
        }  # fmt: skip
        members = {key: dict(it) for key, it in logged["members"].items()}
        state = "Stable" if members else "Empty"
        return {
            **logged,
            "members": members,
            "state": state,
            "unsynced": set(),
            "initial_left": None,
        }

    # Rules that several requests share.

    def _wrong(self, member_id: str, instance: str | None) -> int:
        if instance is not None:
            known = [k for k, m in self.members.items() if m["instance"] == instance]
            if not known:
                return UNKNOWN_MEMBER_ID
            if known != [member_id]:
                return FENCED_INSTANCE_ID
        return 0 if member_id in self.members else UNKNOWN_MEMBER_ID

    def _checked(self, member_id: str, generation: int) -> int:
        if not self.exists or member_id not in self.members:
            return UNKNOWN_MEMBER_ID
        return 0 if generation == self.generation else ILLEGAL_GENERATION

    def _fits(self, fields: Fields) -> bool:
        if self.state == "Empty":
            return bool(fields["protocols"])
        names = [{p[0] for p in m["protocols"]} for m in self.members.values()]
        return any(all(p[0] in it for it in names) for p in fields["protocols"])

    def _member(self, fields: Fields) -> Fields:
        return {
            **fields,
            "join": None,
            "sync": None,
            "new": False,
            "assignment": b"",
            "until": NEVER,
        }

    def _add(self, number: int, member_id: str, fields: Fields) -> None:
        self.pending.pop(member_id, None)
        self.kind = "consumer"
        self.members[member_id] = self._member(fields)
        self.members[member_id].update(join=number, new=True, until=self.now + NEW_MEMBER_MS)
        self.leader = self.leader or member_id
        self.came = self.came or self.state == "PreparingRebalance"
        self._changed()

    def _park(self, member_id: str, number: int, fields: Fields) -> None:
        member = self.members[member_id]
        if member["join"] is not None:
            self.answers[member["join"]] = (REBALANCE_IN_PROGRESS,)
        member.update(fields, join=number)

    def _replace(self, number: int, old_id: str, member_id: str, fields: Fields) -> None:
        old = self.members[old_id]
        for kind in ("join", "sync"):
            if old[kind] is not None:
                self.answers[old[kind]] = (FENCED_INSTANCE_ID,)
        new = {**old, "join": None, "sync": None, "new": False, "until": self.now + old["session"]}
        self.members = {
            (member_id if k == old_id else k): (new if k == old_id else m)
            for k, m in self.members.items()
        }
        if old_id in self.unsynced:
            self.unsynced = self.unsynced - {old_id} | {member_id}
        if self.leader == old_id:
            self.leader = member_id
        self._park(member_id, number, fields)
        if self.state == "Stable" and self._vote() == self.protocol:
            new["join"] = None
            self.log()
            self.answers[number] = self._joined(member_id)
        else:
            self._changed()

    def _joined(self, member_id: str) -> tuple[Any, ...]:
        members = list(self.members) if member_id == self.leader else []
        return (0, member_id, self.generation, self.leader, self.protocol, members)

    def _changed(self) -> None:
        """A member came, changed or left."""
        if self.state != "PreparingRebalance":
            self._prepare()
        elif self.initial_left is None:
            self._complete_if_all()

    def _complete_if_all(self) -> None:
        if not self.pending and all(m["join"] is not None for m in self.members.values()):
            self._complete()

    def _prepare(self) -> None:
        for member in self.members.values():
            if self.state == "CompletingRebalance":
                member["assignment"] = b""
            if member["sync"] is not None:
                self.answers[member["sync"]] = (REBALANCE_IN_PROGRESS,)
                member.update(sync=None, until=self.now + member["session"])
        self.unsynced, self.sync_end = set(), NEVER
        was_empty, self.state = self.state == "Empty", "PreparingRebalance"
        if was_empty:
            self.came = False
            self.initial_delay = self.initial_delay_ms
            self.initial_left = max(self._rebalance() - self.initial_delay_ms, 0)
            self.join_end = self.now + self.initial_delay_ms
        else:
            self.join_end = self.now + self._rebalance()
            self._complete_if_all()

    def _rebalance(self) -> int:
        return max((m["rebalance"] for m in self.members.values()), default=0)

    def _due(self, key: str, until: int) -> None:
        if key in self.pending:
            del self.pending[key]
            if self.state == "PreparingRebalance":
                self._changed()
        elif key:
            member = self.members[key]
            member["until"] = NEVER
            if member["new"] or (member["join"] is None and member["sync"] is None):
                self._remove(key)
                if self.state == "PreparingRebalance":
                    self._complete_if_all()
                else:
                    self._prepare()
        elif until == self.join_end:
            self._join_due()
        else:
            self.sync_end = NEVER
            for name in self.unsynced & self.members.keys():
                self._remove(name)
            self._prepare()

    def _join_due(self) -> None:
        if self.initial_left and self.came:
            self.came = False
            delay = min(self.initial_delay_ms, self.initial_left)
            self.initial_left = max(self.initial_left - self.initial_delay, 0)
            self.initial_delay = delay
            self.join_end = self.now + delay
        else:
            self._complete()

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        for kind in ("join", "sync"):
            if member[kind] is not None:
                self.answers[member[kind]] = (UNKNOWN_MEMBER_ID,)
        self.unsynced.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def _complete(self) -> None:
        self.join_end, self.initial_left = NEVER, None
        for key in [
            k for k, m in self.members.items() if m["join"] is None and m["instance"] is None
        ]:
            self._remove(key)
        joined = [k for k, m in self.members.items() if m["join"] is not None]
        if self.members and not joined:
            self.join_end = self.now + self._rebalance()
            return
        if self.members and self.leader not in joined:
            self.leader = joined[0]
        self.generation += 1
        self.protocol = self._vote()
        if not self.members:
            self.state = "Empty"
            self.log()
            return
        self.state = "CompletingRebalance"
        self.unsynced, self.sync_end = set(self.members), self.now + self._rebalance()
        for key, member in self.members.items():
            if member["join"] is not None:
                self.answers[member["join"]] = self._joined(key)
            member.update(join=None, new=False, until=self.now + member["session"])

    def _vote(self) -> str | None:
        if not self.members:
            return None
        sets = [{p[0] for p in m["protocols"]} for m in self.members.values()]
        shared = set.intersection(*sets)
        firsts = [
            next(p[0] for p in m["protocols"] if p[0] in shared) for m in self.members.values()
        ]
        likes = [p[0] for p in self.members[self.leader or ""]["protocols"]]
        chosen: str = max(
            sorted(shared & set(firsts)), key=lambda n: (firsts.count(n), -likes.index(n))
        )
        return chosen
