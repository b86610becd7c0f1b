"""The crew of a run: consumers of one group act, come to rest after the faults, and are judged."""

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Any

from kprod.broker import Rejected
from kprod.broker.group.view import GroupView
from kprod.consumer.group.member_state import MemberState
from kprod.model import TopicPartition
from kprod.record.reader import read_batches
from tests.oracle.record_v2 import encode_batch
from tests.sim.crew_book import CrewBook
from tests.sim.crew_plan import MORE, WORK
from tests.sim.crew_tap import CrewTap
from tests.sim.crew_worker import Worker
from tests.sim.group_faults import hold_followers
from tests.sim.plan import Entry
from tests.sim.scheduler import MS

if TYPE_CHECKING:
    from tests.sim.world import World

FIRST_NUMBER = 3_000
"""Number of a run's first worker among its clients."""
PACE_MS = 20
PARTITIONS_MAX = 8
SETTLE_ROUNDS = 5
SETTLE_SLACK_MS = 3_000
CLOSE_MS = 8_000
_NO_LEADER = -1
_LEAVES = 6
"""Bits of a change of topics: with any of them the member leaves the group in between."""


class Crew:
    """The consumers of one run's group; none, if the plan has none.

    Args:
        world: World of the run.

    Attributes:
        world: World of the run.
        book: Observations.
        all: Every worker of the run.
        open: The worker of each slot.
    """

    def __init__(self, world: "World") -> None:
        self.world = world
        self.book = CrewBook(world.find)
        self.all: list[Worker] = []
        self.open: dict[int, Worker] = {}
        self._counts: dict[str, int] = {}
        self._is_ending = False

    @property
    def exists(self) -> bool:
        """Whether the plan has one."""
        return bool(self.world.plan.crew)

    def start(self, origin_ns: int) -> None:
        """Make the topics, and schedule the acts."""
        if not self.exists:
            return
        self._counts = {WORK: self.world.plan.crew["partitions"], MORE: 1}
        for name, count in self._counts.items():
            self.world.cluster.create_topic(name, count)
        for entry in self.world.plan.shifts:
            self.world.scheduler.at(origin_ns + entry["at_ms"] * MS, partial(self._act, entry))

    def heal(self) -> None:
        """End the faults of the consumers' side."""
        if self.exists:
            hold_followers(self.world, 0)
        for worker in self.all:
            worker.thaw()

    def has_other(self, worker: Worker) -> bool:
        """Whether a static worker was replaced: by another process, or by an id of its own."""
        # The coordinator gives it another id with each join that brings none. It may know an
        # earlier one only, if it has moved before the last one was in its log; and a join whose
        # connection was lost may arrive after the one that was sent instead. No client can tell
        # that from another process.
        if any(it is not worker and it.name == worker.name for it in self.all):
            return True
        tap = self.world.taps[worker.number]
        return isinstance(tap, CrewTap) and tap.join_count > 1

    def counts(self, member_id: str) -> bool:
        """Whether a coordinator has a member in the group."""
        view = self._view()
        return view is not None and any(it.member_id == member_id for it in view.members)

    def look(self) -> None:
        """Look at the committed offsets."""
        self.book.look(self.committed())

    def committed(self) -> dict[TopicPartition, int]:
        """Return the committed offsets; none while no coordinator knows the group."""
        view = self._view()
        return {} if view is None else {place: it.offset for place, it in view.offsets.items()}

    def settle(self, run_for: Callable[[int], object]) -> None:
        """C6, C2: after the faults the group comes to rest; all is read when its topic has grown.

        Args:
            run_for: Lets milliseconds pass.
        """
        if not self.exists:
            return
        settings = self.world.plan.crew
        for index in range(2 * sum(self._counts.values())):
            self._write(index)
        limit_ms = SETTLE_ROUNDS * (settings["session_ms"] + settings["stall_ms"]) + SETTLE_SLACK_MS
        self._wait(run_for, limit_ms, self._is_settled, self._unrest)
        self._grow()
        for index in range(sum(self._counts.values())):
            self._write(index)
        self._wait(run_for, limit_ms, self._is_settled, self._unrest)
        self._is_ending = True
        for worker in self._living():
            worker.is_leaving = True
        self._wait(run_for, CLOSE_MS, self._is_closed, lambda: "a worker does not close")
        self.look()
        for place, end in self._ends().items():
            if self.book.undone[place] < end:
                text = f"{place} ends at {end}; {self.book.undone[place]} was processed by nobody"
                self.world.find("C2", text)
        self._look_at_what_is_left()

    def _wait(
        self,
        run_for: Callable[[int], object],
        limit_ms: int,
        is_done: Callable[[], bool],
        text: Callable[[], str],
    ) -> None:
        """C6: wait for something that must come."""
        end_ns = self.world.scheduler.now_ns + limit_ms * MS
        while not is_done():
            self._man()
            if self.world.scheduler.now_ns >= end_ns:
                self.world.find("C6", text())
                return
            run_for(PACE_MS)
            self.look()

    def _man(self) -> None:
        """Have somebody read all topics, also after the last static member was fenced."""
        if not self._living() and not self._is_ending:
            self._start(0)
        for worker in self._living():
            if MORE not in worker.topics:
                worker.change_topics([WORK, MORE])

    def _is_settled(self) -> bool:
        view, living, ends = self._view(), self._living(), self._ends()
        if any(it.parts.group.membership.state is not MemberState.STABLE for it in living):
            return False
        if view is None or view.state != "Stable" or len(view.members) != len(living):
            return False
        owned = sorted(place for it in living for place in it.owned)
        if owned != sorted(ends):
            return False
        return all(starmap(self._is_read, ends.items()))

    def _is_read(self, place: TopicPartition, end: int) -> bool:
        """Whether all is processed and committed."""
        offset = self.committed().get(place, 0)
        # A late commit may have replaced the last one, which nobody repeats without new records.
        is_committed = offset == end or self.book.may_be_late(place, offset)
        return is_committed and self.book.undone[place] >= end

    def _unrest(self) -> str:
        known = [
            (it.name, it.parts.group.membership.state.name, sorted(it.owned))
            for it in self._living()
        ]
        view = self._view()
        shown = None if view is None else (view.state, view.generation, len(view.members))
        offsets = f"committed {self.committed()}, ends {self._ends()}"
        return f"no rest: {known}, {shown}, {offsets}"

    def _is_closed(self) -> bool:
        return all(it.has_closed and it.thread_has_ended for it in self.all)

    def _look_at_what_is_left(self) -> None:
        """R9: a closed consumer keeps nothing."""
        for worker in self.all:
            if not worker.has_closed or not worker.parts.thread.has_ended:
                self.world.find("R9", f"{worker.name} does not close")
                continue
            worker.parts.buffer.take_freed()
            held = worker.parts.buffer.held_bytes
            links = [
                link.number
                for link in self.world.network.links
                if link.client == worker.number and not link.transport.is_closed
            ]
            if held or links:
                self.world.find("R9", f"{worker.name} keeps {held} bytes and the links {links}")

    def _view(self) -> GroupView | None:
        try:
            return self.world.cluster.group(self.world.plan.crew["names"][0])
        except Rejected:
            return None

    def _living(self) -> list[Worker]:
        return [it for it in self.all if not it.is_over and not it.is_leaving]

    def _ends(self) -> dict[TopicPartition, int]:
        found = {}
        for topic, count in self._counts.items():
            for index in range(count):
                partition = self._partition(topic, index)
                found[TopicPartition(topic, index)] = partition.log.log_end_offset
        return found

    def _topic_of(self, topic_id: uuid.UUID) -> str:
        found = self.world.cluster._kprod.engine.state.topics.get_by_id(topic_id)
        return "" if found is None else found.name

    def _partition(self, topic: str, index: int) -> Any:
        return self.world.cluster._kprod.engine.state.topics.partition(topic, index)

    def _act(self, entry: Entry) -> None:
        if self.world.is_calm:
            return
        kind = entry["kind"]
        self.world.note(b"shift", kind.encode())
        self.world.count(f"crew act {kind}")
        if kind == "write":
            self._write(entry["choice"])
            return
        if kind == "grow":
            self._grow()
            return
        worker = self.open.get(entry["slot"])
        is_gone = worker is None or worker.is_over
        if kind == "start" and is_gone:
            self._start(entry["slot"])
        elif worker is not None and not is_gone:
            SHIFTS.get(kind, _nothing)(self, worker, entry)

    def _start(self, slot: int) -> None:
        number = FIRST_NUMBER + len(self.all)
        self.world.taps[number] = tap = CrewTap(self._topic_of)
        self.book.taps.append(tap)
        worker = Worker(self, number, slot)
        self.all.append(worker)
        self.open[slot] = worker

    def replace(self, worker: Worker) -> None:
        """Start another process in the place of one: a static one beside it."""
        if not self.world.plan.crew["slots"][worker.slot]["static"]:
            worker.crash()
        self._start(worker.slot)

    def _write(self, choice: int) -> None:
        """Append records to a partition that is led."""
        places = sorted(self._counts.items())
        names = [TopicPartition(topic, index) for topic, count in places for index in range(count)]
        place = names[choice % len(names)]
        partition = self._partition(*place)
        if partition is None or partition.leader_id == _NO_LEADER:
            return
        now_ms = self.world.scheduler.clock.timestamp_ms()
        rows: list[Any] = [(now_ms, None, b"w", []) for _ in range(1 + (choice >> 6) % 4)]
        encoded = memoryview(bytearray(encode_batch(rows)))
        partition.store(next(read_batches(encoded, check_crc=False)), encoded, now_ms)
        self.world.network.broker_has_work()

    def _grow(self) -> None:
        """Add a partition."""
        count = self._counts[WORK] + 1
        if count <= PARTITIONS_MAX:
            topics = self.world.cluster._kprod.engine.state.topics
            topics.grow(WORK, count, assignment=None, dry_run=False)
            self._counts[WORK] = count


def _nothing(_crew: Crew, _worker: Worker, _entry: Entry) -> None:
    """Do nothing: the slot has a worker already."""


def _leave(_: Crew, worker: Worker, __: Entry) -> None:
    worker.is_leaving = True


def _topics(_: Crew, worker: Worker, entry: Entry) -> None:
    worker.change_topics([WORK, MORE][: 1 + entry["choice"] % 2])
    if entry["choice"] & _LEAVES:
        worker.subscribe_again(entry["for_ms"])


SHIFTS: Mapping[str, Callable[[Crew, Worker, Entry], object]] = {
    "leave": _leave,
    "crash": lambda _, worker, __: worker.crash(),
    "beside": lambda _, worker, __: worker.close_beside(),
    "stall": lambda _, worker, entry: worker.stall(entry["for_ms"]),
    "freeze": lambda _, worker, entry: worker.freeze(entry["for_ms"]),
    "replace": lambda crew, worker, _: crew.replace(worker),
    "topics": _topics,
    "rebalance": lambda _, worker, __: worker.rebalance(),
}
"""Acts of a worker that runs."""
