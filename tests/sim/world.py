"""One run: brokers, producers and an application in virtual time, and the verdict.

First the load, with faults; then everything is healed (or one broker stays dead), each partition
must take a fresh record, a long quiet time lets late requests arrive, the producers are closed, and
the oracle looks at the logs.
"""

import collections
import itertools
import zlib
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from kprod import threads
from kprod.clock import wait_by
from tests.sim.caller import Caller
from tests.sim.causes import check_causes
from tests.sim.client import Client
from tests.sim.coverage import counted_moves
from tests.sim.crew import Crew
from tests.sim.ending import Ending
from tests.sim.faults import FAULTS
from tests.sim.group_plan import GROUP_FAULTS
from tests.sim.groups import Groups
from tests.sim.ledger import Ledger
from tests.sim.link import Link
from tests.sim.machine import Machine
from tests.sim.network import SimNetwork
from tests.sim.oracle import Finding, check, check_callbacks, names_in
from tests.sim.plan import Entry, Plan
from tests.sim.reader_plan import READER_FAULTS
from tests.sim.readers import Readers, heard_log
from tests.sim.rest import Rest
from tests.sim.run_log import heard_failures, quiet_log, raising_log
from tests.sim.scheduler import MS, LivelockError, Scheduler
from tests.sim.sim_loop import TaskCaller
from tests.sim.sim_threads import SimThreads
from tests.sim.task_workload import TASKS
from tests.sim.topics import Topics
from tests.sim.truth import check_truth
from tests.sim.undelivered import Covered
from tests.sim.workload import OPERATIONS, TICK_NS, WAITING, HabitError

if TYPE_CHECKING:
    from tests.sim.crew_tap import CrewTap
    from tests.sim.group_wire import NoTap
    from tests.sim.reader_tap import ReaderTap
    from tests.sim.tap import ClientTap

APPLICATION = frozenset({"slow callback", "purge", "close"})
"""Entries of the book that the application caused."""
POISON = b"\xdd" * 12


@dataclass(slots=True)
class Verdict:
    """The results of a run.

    Attributes:
        digest: Digest of everything that happened, in order.
        findings: Broken invariants.
        counts: How often rare things happened.
        events: Events of the scheduler.
    """

    digest: int
    findings: list[Finding] = field(default_factory=list)
    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    events: int = 0


class World:
    """Everything in one run.

    Args:
        plan: Plan of the run.

    Attributes:
        scheduler: Virtual time.
        network: All links.
        machine: Runs the brokers.
        cluster: The brokers; others after a restart.
        clients: The producers that are open, by their place in the plan.
        is_calm: The load and the faults are over.
        dead: Id of the broker that hangs until the end; −1 for none.
        healed: How often everything was healed.
        throttled_until_ns: Until then a broker may have told a client to wait.
        ledger: The application's knowledge about each record.
        topics: Topics that exist or existed.
        everyone: Every producer of the run, by its number.
        taps: On the wire of every client, by its number.
        readers: The consumers of the run.
        groups: The groups of the run.
        crew: The consumers of a group of the run.
        callers: Threads and event loops of the application.
        threads: The virtual threads, where the plan has them.
        book: When each kind of fault, and each drastic operation, happened first.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.scheduler = Scheduler(plan.seed)
        self.network = SimNetwork(plan.seed, self.scheduler, self)
        self.counts: collections.Counter[str] = collections.Counter()
        self.findings: list[Finding] = []
        self.throttled_until_ns = 0
        self.dead = -1
        self.healed = 0
        self.is_calm = False
        self._digest = 0
        self._step_ns = -1  # the present instant, if the brokers are stepped in it
        self._due_ns = -1  # when they are stepped for their timers
        self.ledger = Ledger(self)
        self.everyone: dict[int, Client] = {}
        self.taps: dict[int, ClientTap | ReaderTap | NoTap | CrewTap] = {}
        self.readers = Readers(self)
        self.groups = Groups(self)
        self.crew = Crew(self)
        self._numbers = itertools.count()
        self.callers: dict[tuple[int, int], Caller | TaskCaller] = {}
        self.threads: SimThreads | None = None
        self.book: dict[str, int] = {}
        self.machine = Machine(self)
        self.cluster = self.machine.boot(plan.topics)
        self.topics = Topics(plan, self.cluster)
        if plan.reader:
            self.topics.on_retire = self.readers.book.retire
        self.network.on_broker_work = self._broker_work
        self.clients: list[Client] = []
        self.bootstrap_servers = ""

    # Methods that entries of the plan use.

    def count(self, name: str) -> None:
        """Count something rare."""
        self.counts[name] += 1

    def find(self, invariant: str, text: str) -> None:
        """Note a broken invariant."""
        now_ms = self.scheduler.now_ns / 1e6
        self.findings.append(Finding(invariant, f"at {now_ms:.3f} ms: {text}"))

    def later(self, delay_ms: int, action: Callable[[], object]) -> None:
        """Undo a fault, unless everything is healed by then."""
        healed = self.healed
        self.scheduler.after(delay_ms * MS, lambda: action() if healed == self.healed else None)

    def is_alive(self, broker: int) -> bool:
        """Return whether a broker runs."""
        return self.cluster._kprod.engine.state.is_alive(broker)

    def revive(self, broker: int) -> None:
        """Start a broker if it is stopped."""
        if not self.is_alive(broker):
            self.cluster.start_broker(broker)

    def replace(self, client: Client, timeout_s: float = 0) -> None:
        """Close a producer and make another in its place."""
        if client in self.clients and not client.is_replaced:  # another thread may do it as well
            client.is_replaced = True
            self.happened("close")
            place = self.clients.index(client)
            self.clients[place] = self._new_client(client.settings)
        client.end(timeout_s)

    def closed(self, client: Client, covered: Covered, undelivered: int) -> None:
        """Look at what a closed producer leaves."""
        self.note(b"closed", b"%d %d" % (client.number, undelivered))
        covered.check("close", undelivered)

    # The tap.

    def connected(self, link: Link) -> None:
        """Note a connection attempt."""
        self.note(b"connect", b"%d" % link.port)
        self.taps[link.client].connected(link)

    def wrote(self, link: Link, data: bytes) -> None:
        """Note bytes that a client wrote, and look for freed memory in them."""
        self.note(b"wrote%d" % link.number, data)
        self.taps[link.client].wrote(link, data)
        if POISON in data:
            self.find("I6", f"freed memory was written to link {link.number}")

    def read(self, link: Link, data: bytes) -> None:
        """Note bytes that a client read."""
        self.note(b"read%d" % link.number, data)
        self.taps[link.client].read(link, data)

    def shut(self, link: Link) -> None:
        """Note a link that a client closed."""
        self.note(b"shut", b"%d" % link.number)
        self.taps[link.client].shut(link)

    def note(self, kind: bytes, data: bytes) -> None:
        """Add something that happened to the digest."""
        head = b"%d %b %d" % (self.scheduler.now_ns, kind, len(data))
        self._digest = zlib.crc32(data, zlib.crc32(head, self._digest))

    # The run.

    def run(self) -> Verdict:
        """Run the plan to its end, and judge."""
        with ExitStack() as stack:
            stack.enter_context(counted_moves(self.count))
            stack.enter_context(raising_log(self) if self.plan.raising_log else quiet_log())
            stack.enter_context(heard_log(self.readers))
            stack.enter_context(heard_failures(self))
            if self.plan.mode != "engine":
                kind = self.threads = stack.enter_context(virtual_threads(self))
                stack.callback(lambda: self.counts.update({"wait for a lock": kind.waits}))
            try:
                self._run(self.scheduler.now_ns)
            except LivelockError as error:
                self.find("I12", str(error))
            except Exception as error:  # noqa: BLE001 - nothing may end a run but its end
                self.find("I8", f"the run was ended by {error!r}")
            self.scheduler.end_actors()
        return Verdict(self._digest, self.findings, self.counts, self.scheduler.event_count)

    def _run(self, origin_ns: int) -> None:
        self.cluster.open()
        self.bootstrap_servers = self.cluster.bootstrap_servers
        self._step()
        self.clients += [self._new_client(settings) for settings in self.plan.producers]
        for entry in self.plan.operations:
            self.scheduler.at(origin_ns + entry["at_ms"] * MS, partial(self._operate, entry))
        for entry in self.plan.faults:
            self.scheduler.at(origin_ns + entry["at_ms"] * MS, partial(self._break, entry))
        self.readers.start(origin_ns)
        self.groups.start(origin_ns)
        self.crew.start(origin_ns)
        for entry in self.plan.rests:
            self.scheduler.at(origin_ns + entry["at_ms"] * MS, Rest(self).begin)
        self.scheduler.event_limit = 400_000
        self.scheduler.run_until(origin_ns + self.plan.load_ms * MS)
        self.is_calm = True
        ending = Ending(self)
        ending.heal()
        ending.probe()
        self.groups.settle(ending.run_for)
        self.crew.settle(ending.run_for)
        ending.rest()
        self._judge()

    def _operate(self, entry: Entry) -> None:
        if self.plan.mode == "engine":
            self._act(entry)
            return
        has_loops = self.plan.mode == "tasks"
        place = (entry["producer"], entry["caller"] % 2 if has_loops else entry["caller"])
        if place not in self.callers:
            self.callers[place] = (
                TaskCaller(self.scheduler, self._take_error)
                if has_loops
                else Caller(self.scheduler)
            )
        caller = self.callers[place]
        if isinstance(caller, TaskCaller):
            caller.add(partial(self._act_in_task, caller, entry))
        else:
            caller.add(partial(self._act, entry))

    def _act(self, entry: Entry) -> None:
        client = self.clients[entry["producer"]]
        kinds = WAITING if self.plan.mode == "threads" else OPERATIONS
        kinds[entry["kind"]](self, client, entry)

    async def _act_in_task(self, caller: TaskCaller, entry: Entry) -> None:
        client = self.clients[entry["producer"]]
        await TASKS[entry["kind"]](self, client, caller, entry)

    def _take_error(self, error: BaseException) -> None:
        """Note what a task of the application raised, unless the plan wants it."""
        if not isinstance(error, HabitError):
            self.find("I8", f"a task or a callback of a loop raised {error!r}")

    @property
    def is_undisturbed(self) -> bool:
        """Whether nothing has happened but what the application did."""
        return self.book.keys() - READER_FAULTS.keys() - GROUP_FAULTS.keys() <= APPLICATION

    @property
    def is_faultless(self) -> bool:
        """Whether no fault has happened yet, not even one of groups."""
        return not self.is_calm and self.book.keys() <= APPLICATION

    def happened(self, kind: str) -> None:
        """Write into the book that a fault, or a drastic operation, happens now."""
        self.book.setdefault(kind, self.scheduler.now_ns)

    def _break(self, entry: Entry) -> None:
        self.count(f"fault {entry['kind']}")
        self.happened(entry["kind"])
        self.note(b"fault", entry["kind"].encode())
        FAULTS[entry["kind"]](self, entry)

    def call_in_thread(self, call: Callable[[], object]) -> None:
        """Make a call of the application in a thread of its own."""
        caller = Caller(self.scheduler)
        self.callers[-1, len(self.callers)] = caller
        caller.add(call)
        caller.end()

    def _judge(self) -> None:
        self.readers.judge()
        self.ledger.finish(self.everyone.__getitem__)
        for client in self.everyone.values():
            self.counts["pipelined"] += client.tap.pipelined
            self.counts["response that does not fit"] += client.tap.wrong_responses
        promises = {client.number: client.promises for client in self.everyone.values()}
        unheard = {name for client in self.everyone.values() for name in client.unheard}
        self.findings += check_causes(self.ledger.sent, self.book)
        if self.is_undisturbed and (given_up := self.counts["connection was given up"]):
            self.find("Q2", f"{given_up} connections were given up without a cause")
        logs, lost = self.topics.logs(), self.machine.lost
        self.findings += check(self.ledger.sent, logs, promises, TICK_NS, unheard, lost)
        self.findings += check_callbacks(self.ledger.told, promises)
        for client in self.everyone.values():
            self.findings += check_truth(
                client.records,
                client.tap,
                names_in(logs),
                is_undisturbed=not self.counts["connection was given up"],
            )
        self.cluster.close()

    # The brokers.

    def _broker_work(self) -> None:
        if self._step_ns != self.scheduler.now_ns:
            self._step_ns = self.scheduler.now_ns
            self.scheduler.after(0, self._step)

    def _step(self) -> None:
        self._step_ns = -1
        due_ms = self.machine.step(self.scheduler.clock.now_ms())
        if due_ms is not None and due_ms * MS != self._due_ns:
            self._due_ns = due_ms * MS
            self.scheduler.at(self._due_ns, self._step)

    def _new_client(self, settings: dict[str, object]) -> Client:
        # Threads change over while a producer is made: two may be made at once.
        client = Client(self, next(self._numbers), settings)
        self.everyone[client.number] = client
        self.taps[client.number] = client.tap
        return client


@contextmanager
def virtual_threads(world: World) -> Generator[SimThreads]:
    """Have threads, and the clock of waits, of the simulation."""

    def note(error: BaseException) -> None:
        world.find("I8", f"a thread of kprod's was ended by {error!r}")

    kind = SimThreads(world.scheduler, world.plan.seed, note)
    threads.use(kind)
    wait_by(world.scheduler.clock)
    try:
        yield kind
    finally:
        wait_by(None)
        threads.use(threads.SYSTEM)


def simulate(plan: Plan) -> Verdict:
    """Run a plan."""
    return World(plan).run()
