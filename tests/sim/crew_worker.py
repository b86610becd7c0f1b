"""One member of a crew: a consumer, and an application that reads, works and commits."""

import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import kprod
from kprod.consumer.consumer_wiring import ConsumerEnvironment
from kprod.errors import ClosedError, KprodError
from kprod.model import OffsetAndMetadata, TopicPartition
from kprod.network.connection_context import NetworkIO
from kprod.protocol.error_table import FencedInstanceId
from tests.sim.caller import Caller
from tests.sim.client_io import Shortage, SimResolver, SimSelector, SimSocketWait
from tests.sim.crew_plan import MORE, WORK
from tests.sim.draw import Draw
from tests.sim.scheduler import MS

if TYPE_CHECKING:
    from tests.sim.crew import Crew
    from tests.sim.world import World

GRACE_MS = 100
CLOSE_S = 2.0
COMMIT_MS = 300
CALM_WAIT_MS = 20


class Worker:
    """One member.

    Args:
        crew: The crew.
        number: Its number among all clients of the run.
        slot: Its place in the plan.

    Attributes:
        name: Its name for the book: the same for a static member that takes another one's place.
        slot: Its place in the plan.
        consumer: Under test.
        owned: The partitions that the consumer has given and not taken back.
        is_over: Its application does nothing any more.
        is_leaving: It is about to close.
        has_closed: `close` has returned.
        topics: The topics that it subscribes to.
        todo: Calls that it makes before its next poll, each with its time in milliseconds.
    """

    def __init__(self, crew: "Crew", number: int, slot: int) -> None:
        world: World = crew.world
        self.slot = slot
        self.number = number
        self._own = world.plan.crew["slots"][slot]
        self.name = f"static-{slot}" if self._own["static"] else f"worker-{number}"
        self.owned: set[TopicPartition] = set()
        self.is_over = False
        self.is_leaving = False
        self.has_closed = False
        self.todo: list[tuple[int, Callable[[], object]]] = []
        self._crew = crew
        self._world = world
        self._scheduler = world.scheduler
        self._next: dict[TopicPartition, int] = {}
        self._stalled_until_ns = 0
        self._is_dirty = False
        self.topics = [WORK, MORE][: self._own["topics"]]
        scheduler, seed = world.scheduler, world.plan.seed
        self.selector = SimSelector(
            scheduler, Draw(seed, f"ready/{number}"), Shortage(), can_pause=False
        )
        self.resolver = SimResolver(scheduler, self.selector.wakeup)
        io = NetworkIO(
            selector=self.selector,
            resolver=self.resolver,
            connect=partial(world.network.connect, number, Shortage()),
            make_socket_wait=partial(SimSocketWait, scheduler),
        )
        self.consumer = kprod.Consumer(
            settings=self._settings(),
            environment=ConsumerEnvironment(
                clock=scheduler.clock, rng=random.Random(f"{seed}/jitter/{number}"), io=lambda _: io
            ),
        )
        self._caller = Caller(scheduler)
        self._caller.add(self._work)
        self._caller.end()

    def _settings(self) -> dict[str, Any]:
        plan, own = self._world.plan.crew, self._own
        found = {
            "bootstrap_servers": self._world.bootstrap_servers,
            "client_id": f"worker-{self.number}",
            "group_id": plan["names"][0],
            "auto_offset_reset": "earliest",
            "partition_assignment_strategy": plan["strategy"],
            "session_timeout_ms": plan["session_ms"],
            "heartbeat_interval_ms": plan["heartbeat_ms"],
            "max_poll_interval_ms": plan["stall_ms"],
            "request_timeout_ms": plan["request_ms"],
            "default_api_timeout_ms": plan["api_ms"],
            "fetch_max_wait_ms": 100,
            "retry_backoff_ms": 20,
            "retry_backoff_max_ms": 100,
            "socket_connection_setup_timeout_ms": 500,
            "socket_connection_setup_timeout_max_ms": 500,
            "reconnect_backoff_ms": 20,
            "reconnect_backoff_max_ms": 100,
            "metadata_max_age_ms": 1_000,
            "enable_auto_commit": own["commits"] == "auto",
            "auto_commit_interval_ms": own["interval_ms"],
            "consumer_timeout_ms": own["wait_ms"],
            "max_poll_records": own["records"],
        }
        return found | ({"group_instance_id": self.name} if own["static"] else {})

    @property
    def parts(self) -> Any:
        """The consumer's parts."""
        engine: Any = self.consumer._kprod
        return engine.parts

    @property
    def thread_has_ended(self) -> bool:
        """Whether the application's thread has returned."""
        return self._caller.is_over

    # Acts, from events.

    def stall(self, for_ms: int) -> None:
        """Let the application ask for nothing for a while."""
        self._stalled_until_ns = self._scheduler.now_ns + for_ms * MS

    def freeze(self, for_ms: int) -> None:
        """Let the process not run for a while."""
        sleeper = self.selector.sleeper
        if sleeper is not None and self.selector.is_asleep:
            sleeper.frozen_until_ns = self._scheduler.now_ns + for_ms * MS
        self.stall(for_ms)

    def thaw(self) -> None:
        """End a freeze and a stall."""
        self._stalled_until_ns = 0
        self.resolver.is_failing = False
        if self.selector.sleeper is not None:
            self.selector.sleeper.thaw()

    def crash(self) -> None:
        """End without a word: nothing is committed, and the group is not told."""
        self.is_over = True
        self._world.call_in_thread(partial(self._close, 0))

    def close_beside(self) -> None:
        """Close in another thread than the one that polls."""
        self.is_over = True
        self._world.call_in_thread(partial(self._close, CLOSE_S))

    def change_topics(self, topics: list[str]) -> None:
        """Subscribe to other topics, before the next poll."""
        self.topics = topics
        self.todo.append((0, self._subscribe))

    def subscribe_again(self, after_ms: int) -> None:
        """Leave the group before the next poll, and join it as another member after a while."""
        # It commits, and waits for the commits of its listener.
        self.todo.append((3 * self._world.plan.crew["api_ms"], self.consumer.unsubscribe))
        self.todo.append((after_ms, partial(self._sleep_ms, after_ms)))
        self.todo.append((0, self._subscribe))

    def rebalance(self) -> None:
        """Have the group distribute its partitions again."""
        self.todo.append((0, self.consumer.enforce_rebalance))

    # The application.

    def _work(self) -> None:
        self._guarded("subscribe", 0, self._subscribe)
        while not self.is_over and not self.is_leaving:
            self._wait_for_a_stall()
            if self.todo:
                self._guarded("act", *self.todo.pop(0))
            elif self._own["style"] == "poll":
                self._poll()
            else:
                self._iterate()
        if not self.is_over:
            self.is_over = True
            self._close(CLOSE_S)

    def _subscribe(self) -> None:
        self.consumer.subscribe(self.topics, self)

    def _wait_for_a_stall(self) -> None:
        """Stall; give the others their turn in any case."""
        actor = self._scheduler.current
        until_ns = max(self._stalled_until_ns, self._scheduler.now_ns + MS)
        while actor is not None and self._scheduler.now_ns < until_ns:
            actor.sleep(until_ns)
            until_ns = self._stalled_until_ns

    def _poll(self) -> None:
        wait_ms = CALM_WAIT_MS if self._world.is_calm else self._own["wait_ms"]
        records = self._guarded("poll", wait_ms, lambda: self.consumer.poll(wait_ms / 1_000))
        for record in records or ():
            self._take(record)
        self._do_work()
        for record in records or ():
            self._process(record)
        self._commit()

    def _iterate(self) -> None:
        # Each record may take the consumer's timeout, and the work on it.
        limit_ms = (self._own["wait_ms"] + self._own["work_ms"]) * 10
        self._guarded("iteration", limit_ms, self._loop)
        self._commit()

    def _loop(self) -> None:
        left = self._own["records"] % 10
        for record in self.consumer:
            self._take(record)
            self._do_work()
            self._process(record)
            left -= 1
            if left <= 0 or self.is_over or self.is_leaving or self.todo or self._stalled_until_ns:
                return

    def _take(self, record: Any) -> None:
        """Look at a record that was handed out."""
        place = TopicPartition(record.topic, record.partition)
        text = f"{self.name} got {place.topic}-{place.partition} {record.offset}"
        self._world.note(b"worker%d" % self.number, text.encode())
        self._world.count("crew: record")
        if place not in self.owned:
            self._world.find("C4", f"{text}, which it does not own any more")
        generation = self.consumer.group_metadata().generation if not self.is_over else -1
        owner = self._crew.book.owner(generation, place)
        if owner not in {"", self.name} and self._is_counted():
            self._world.find("C1", f"{text} in generation {generation}, where {owner} owns it")
        expected = self._next.get(place)
        if expected is None:
            self._crew.book.begins(self.name, place, record.offset)
        elif record.offset != expected:
            self._world.find("C3", f"{text}; the next one is {expected}")
        self._next[place] = record.offset + 1

    def _is_counted(self) -> bool:
        """Whether the coordinator counts this member."""
        # Kafka cannot stop one that was removed and has not heard of it: its coordinator may be out
        # of reach, or have lost the generation that it told of, and told others of one with the
        # same number. Until it hears, such a member reads on, and its commits are rejected.
        return self._crew.counts(self.parts.group.membership.identity.member_id)

    def _process(self, record: Any) -> None:
        """Be done with a record, unless the process has crashed."""
        if not self.is_over:
            self._crew.book.done(TopicPartition(record.topic, record.partition), record.offset)
            self._is_dirty = True

    def _commit(self) -> None:
        how = self._own["commits"]
        if not self._is_dirty or self.is_over or how == "auto":
            return
        if how == "async":
            self._is_dirty = False
            self._guarded("commit_async", 0, lambda: self.consumer.commit_async(None, self._told))
        elif how == "sync" or self._world.is_calm:
            self._is_dirty = False
            self._is_dirty = not self._guarded("commit", COMMIT_MS, self._commit_now)

    def _commit_now(self) -> bool:
        self.consumer.commit(None, COMMIT_MS / 1_000)
        return True

    def _told(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KprodError | None
    ) -> None:
        self._world.count(f"crew: commit ended {type(error).__name__}")
        if error is not None:
            self._is_dirty = True
        else:
            self._crew.book.confirmed(self.name, offsets, self._crew.committed())

    def _do_work(self) -> None:
        """Take time for records; none in the end, when all must be read."""
        self._sleep_ms(0 if self._world.is_calm else self._own["work_ms"])

    def _sleep_ms(self, for_ms: int) -> None:
        actor = self._scheduler.current
        until_ns = self._scheduler.now_ns + for_ms * MS
        while actor is not None and for_ms and self._scheduler.now_ns < until_ns:
            actor.sleep(until_ns)

    def _close(self, timeout_s: float) -> None:
        # Longer for the last turn, and for a listener's commit.
        self._guarded(
            "close", round(timeout_s * 1_000) + 500, lambda: self.consumer.close(timeout_s)
        )
        self.has_closed = True
        self.owned.clear()
        self._crew.look()

    def _guarded(self, what: str, limit_ms: int, call: Callable[[], Any]) -> Any:
        """Make a call, and continue after its error.

        R12: it returns in its time. R6: it raises only documented errors.

        Args:
            what: Name of the call.
            limit_ms: Its time.
            call: The call.

        Returns:
            Its result; None if it raised.
        """
        began_ns = self._scheduler.now_ns
        try:
            return call()
        except KprodError as error:
            self._take_error(what, error)
        except Exception as error:  # noqa: BLE001 - the loop of an application ends by none
            self._world.find("R6", f"{what} of {self.name} raised {error!r}")
            self.is_over = True
        finally:
            took_ms = (self._scheduler.now_ns - began_ns) / MS
            listener_ms = COMMIT_MS if self._own["commits"] == "listener" else 0
            if took_ms > limit_ms + listener_ms + GRACE_MS:
                text = f"{what} of {self.name} of at most {limit_ms} ms took {took_ms:.1f} ms"
                self._world.find("R12", text)
            self._crew.look()
        return None

    def _take_error(self, what: str, error: KprodError) -> None:
        self._world.count(f"crew: {what} raised {type(error).__name__}")
        if not self.is_over and (isinstance(error, ClosedError) or self.parts.thread.has_ended):
            self._world.find("R6", f"{self.name} was closed by nobody: {error!r}")
            self.is_over = True
        if isinstance(error, FencedInstanceId):
            if not self._crew.has_other(self):
                self._world.find("R6", f"nobody has taken the place of {self.name}: {error!r}")
            self.is_leaving = True

    # The listener.

    def on_assigned(self, consumer: Any, keys: Iterable[TopicPartition]) -> None:
        """Own them, in this generation."""
        for place in keys:
            self.owned.add(place)
            self._next.pop(place, None)
        found = consumer.group_metadata()
        if found.generation >= 0:
            self._world.count("crew: generation")
            self._crew.book.owns(self.name, found.generation, sorted(consumer.assignment()))

    def on_revoked(self, consumer: Any, keys: Iterable[TopicPartition]) -> None:
        """Own them no more."""
        if self._own["commits"] == "listener" and self._is_dirty and not self.is_over:
            try:
                consumer.commit(None, COMMIT_MS / 1_000)
            except KprodError as error:
                self._take_error("commit of a listener", error)
        self.owned.difference_update(keys)
        self._world.count("crew: revoked")

    def on_lost(self, _consumer: Any, keys: Iterable[TopicPartition]) -> None:
        """Own them no more."""
        self.owned.difference_update(keys)
        self._world.count("crew: lost")
