"""The groups of a run: their members act, come to rest after the faults, and are judged."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from kprod.broker import Rejected
from kprod.broker.group.view import GroupView
from tests.sim.group_book import GroupBook
from tests.sim.group_faults import hold_followers, in_sync_brokers, longest_delay_ms
from tests.sim.group_member import Member
from tests.sim.group_plan import SHARED
from tests.sim.group_wire import NoTap
from tests.sim.plan import Entry
from tests.sim.scheduler import MS

if TYPE_CHECKING:
    from tests.sim.world import World

FIRST_NUMBER = 2_000
"""Number of a run's first member among its clients."""
PACE_MS = 20
LAST_REQUESTS_MS = 150
SETTLE_ROUNDS = 4
SETTLE_SLACK_MS = 2_000
_LOSING = frozenset(
    {
        *("hold", "slow", "slice", "window", "cut", "half_open", "refuse", "black_hole"),
        *("swizzle", "stop_broker", "stall", "disconnect_all", "drip"),
        "group_lost",
    }
)
"""Faults after which a request may stay without a response."""


class Groups:
    """The groups of one run; none, if the plan has none.

    Args:
        world: World of the run.

    Attributes:
        books: Observations of each group's members, by its id.
        all: Every client of the run.
        open: The client of each group and slot.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self._names: list[str] = world.plan.groups.get("names", [])
        self.books = {
            name: GroupBook(
                name,
                world.find,
                lambda: world.scheduler.now_ns,
                world.plan.groups["initial_ms"] * MS,
            )
            for name in self._names
        }
        self.all: list[Member] = []
        self.open: dict[tuple[str, int], Member] = {}
        self._calm_ns = 0
        self._late_ns = 0  # a member that has timed out may be taken out of its group until then

    def is_owed(self, asked_ns: int) -> bool:
        """Whether a request of this time must be answered: nothing can have lost it."""
        if self._calm_ns and asked_ns >= self._calm_ns:
            return True
        return not self._world.book.keys() & _LOSING

    def start(self, origin_ns: int) -> None:
        """Make the topic, and schedule the acts."""
        world = self._world
        if not self._names:
            return
        world.cluster.create_topic(SHARED, world.plan.groups["partitions"])
        for entry in world.plan.acts:
            world.scheduler.at(origin_ns + entry["at_ms"] * MS, partial(self._act, entry))

    def heal(self) -> None:
        """End the faults of the members' side; nothing more happens but what they do."""
        self._calm_ns = self._world.scheduler.now_ns
        if self._names:
            hold_followers(self._world, 0)
        for member in self.all:
            if not member.is_over:
                member.thaw()

    def settle(self, run_for: Callable[[int], object]) -> None:
        """Judge how the groups come to rest.

        G5: every living member is in a Stable group that shares all partitions. G7: a coordinator
        that replays the log knows what the one before knew, and its members notice nothing.

        Args:
            run_for: Lets milliseconds pass.
        """
        if not self._names:
            return
        settings = self._world.plan.groups
        longest_ms = SETTLE_ROUNDS * (settings["session_ms"] + settings["rebalance_ms"])
        late_ms = longest_delay_ms(self._world)
        self._late_ns = self._calm_ns + late_ms * MS
        end_ns = self._late_ns + (longest_ms + SETTLE_SLACK_MS) * MS
        self._wait(run_for, end_ns, "has not come to rest")
        before = self._views()
        self._reload()
        self._compare(before, self._views())
        for member in self._living():
            member.todo += [*(partial(member.commit, it) for it in member.owned), member.fetch]
        run_for(LAST_REQUESTS_MS + 2 * settings["session_ms"])
        self._wait(run_for, 0, "is disturbed by its coordinator's move")
        self._compare_generations(before)
        for member in self._living():
            member.todo.append(member.leave)
        run_for(LAST_REQUESTS_MS + settings["session_ms"])
        for member in self._living():
            self._world.find("G6", f"{member.member_id} cannot leave")
            member.crash()
        self._wait(run_for, 0, "keeps members that have left")

    def _act(self, entry: Entry) -> None:
        if self._world.is_calm:
            return
        name = self._names[entry["group"] % len(self._names)]
        place = name, entry["member"]
        member = self.open.get(place)
        self._world.note(b"act", entry["kind"].encode())
        self._world.count(f"group act {entry['kind']}")
        if entry["kind"] in {"start", "replace"}:
            if member is None or member.is_over or entry["kind"] == "replace":
                self._start(place, member)
        elif member is not None and not member.is_over:
            ACTS[entry["kind"]](self, member, entry)

    def _start(self, place: tuple[str, int], before: Member | None) -> None:
        """Start a client; a static one beside the client whose place it takes."""
        name, slot = place
        settings = self._world.plan.groups["slots"][slot]
        if before is not None and not settings["static"]:
            before.crash()
        number = FIRST_NUMBER + len(self.all)
        self._world.taps[number] = NoTap()
        member = Member(
            self._world,
            number,
            self.books[name],
            name,
            instance=f"{name}-{slot}" if settings["static"] else None,
            level=settings["level"],
        )
        self.all.append(member)
        self.open[place] = member

    def _living(self, name: str | None = None) -> list[Member]:
        return [it for it in self.all if not it.is_over and name in {None, it.group}]

    def _view(self, name: str) -> GroupView | None:
        try:
            return self._world.cluster.group(name)
        except Rejected:
            return None

    def _views(self) -> Mapping[str, GroupView | None]:
        return {name: self._view(name) for name in self._names}

    def _wait(self, run_for: Callable[[int], object], end_ns: int, text: str) -> None:
        """G5: wait until every group is settled."""
        while any(not self._is_settled(name) for name in self._names):
            if self._world.scheduler.now_ns >= end_ns:
                break
            run_for(PACE_MS)
        for name in self._names:
            if not self._is_settled(name):
                known = [(it.member_id, it.phase, it.owned) for it in self._living(name)]
                self._world.find("G5", f"{name} {text}: {known}, {self._view(name)}")

    def _is_settled(self, name: str) -> bool:
        if self._world.scheduler.now_ns < self._late_ns:
            return False
        view, living = self._view(name), self._living(name)
        if not living:
            return view is None or view.state == "Empty"
        if view is None or view.state != "Stable":
            return False
        if any(it.phase != "stable" or it.todo for it in living):
            return False
        if any(it.proven_ns < self._calm_ns for it in living):
            return False  # one may still wait for a lost response
        owned = sorted(index for it in living for index in it.owned)
        return (
            {it.generation for it in living} == {view.generation}
            and sorted(it.member_id for it in living) == sorted(it.member_id for it in view.members)
            and owned == list(range(self._world.plan.groups["partitions"]))
        )

    def _reload(self) -> None:
        """Let another broker coordinate each group, or the only one again."""
        cluster = self._world.cluster
        for name in self._names:
            view = self._view(name)
            if view is None:
                continue
            others = set(in_sync_brokers(self._world, name)) - {view.coordinator}
            if others:
                cluster.move_coordinator(name, to=min(others))
            else:
                self._world.happened("stop_broker")
                cluster.stop_broker(view.coordinator)
                cluster.start_broker(view.coordinator)

    def _compare(
        self, before: Mapping[str, GroupView | None], after: Mapping[str, GroupView | None]
    ) -> None:
        """G7: nothing that was written is lost, and nothing else is there.

        A commit that followers took too late was told to have failed, and is seen from then on.
        """
        for name, view in before.items():
            other = after[name]
            if view is None or other is None:
                same = view is other
            else:
                same = _without_offsets(view) == _without_offsets(other)
                for place, known in other.offsets.items():
                    now_ns = self._world.scheduler.now_ns
                    self.books[name].fetched(place.partition, known.offset, now_ns)
                same = same and view.offsets.keys() <= other.offsets.keys()
            if not same:
                self._world.find("G7", f"a coordinator loaded {other}, and {view} was there")

    def _compare_generations(self, before: Mapping[str, GroupView | None]) -> None:
        """G7: members whose coordinator moves stay in their generation."""
        for name, view in before.items():
            other = self._view(name)
            if view is not None and other is not None and view.generation != other.generation:
                text = f"generation {other.generation} of {name} follows {view.generation}"
                self._world.find("G7", f"{text} when its coordinator moved")


def _without_offsets(view: GroupView) -> GroupView:
    return view._replace(coordinator=0, offsets={})


def _commit(groups: Groups, member: Member, entry: Entry) -> None:
    del groups
    if member.owned:
        partition = member.owned[entry["choice"] % len(member.owned)]
        member.todo.append(partial(member.commit, partition))


def _stale_commit(groups: Groups, member: Member, entry: Entry) -> None:
    del groups
    if member.owned:
        partition = member.owned[entry["choice"] % len(member.owned)]
        member.todo.append(partial(member.commit, partition, is_stale=True))


def _remove(groups: Groups, member: Member, entry: Entry) -> None:
    others = [it for it in groups.all if it.group == member.group and it.member_id]
    if others:
        member.todo.append(partial(member.remove, others[entry["choice"] % len(others)]))


ACTS: Mapping[str, Callable[[Groups, Member, Entry], object]] = {
    "commit": _commit,
    "stale_commit": _stale_commit,
    "fetch": lambda _, member, __: member.todo.append(member.fetch),
    "stop": lambda _, member, __: member.todo.append(member.leave),
    "crash": lambda _, member, __: member.crash(),
    "stall": lambda _, member, entry: member.freeze(entry["for_ms"]),
    "change": lambda _, member, __: member.todo.append(member.rejoin),
    "remove": _remove,
}
"""Acts of a client that runs."""
