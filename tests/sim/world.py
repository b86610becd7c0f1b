"""One run: brokers, producers and an application in virtual time, and the verdict.

First the load, with faults; then everything is healed (or one broker stays dead), each partition
must take a fresh record, a long quiet time lets late requests arrive, the producers are closed, and
the oracle looks at the logs.
"""

import collections
import logging
import zlib
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from kprod import threads
from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.clock import wait_by
from tests.sim.caller import Caller
from tests.sim.client import Client
from tests.sim.faults import FAULTS
from tests.sim.link import Link
from tests.sim.network import SimNetwork
from tests.sim.oracle import Finding, Outcome, Sent, check, check_callbacks, read_logs
from tests.sim.plan import Entry, Plan
from tests.sim.probe import Probe
from tests.sim.scheduler import MS, LivelockError, Scheduler
from tests.sim.sim_threads import SimThreads
from tests.sim.workload import OPERATIONS, TICK_NS, WAITING

POISON = b"\xdd" * 12
SETTLE_TIMEOUTS = 10
PROBE_SLACK_MS = 1_600
PROBE_PACE_MS = 100


@dataclass(slots=True)
class Verdict:
    """What a run has shown.

    Attributes:
        digest: Of everything that happened, in order.
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
        plan: What happens.

    Attributes:
        scheduler: Virtual time.
        network: All links.
        cluster: The brokers.
        clients: The producers that are open, by their place in the plan.
        dead: The broker that stands still to the end; −1 for none.
        throttled_until_ns: Until then a broker may have told a client to wait.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.scheduler = Scheduler(plan.seed)
        self.network = SimNetwork(plan.seed, self.scheduler, self)
        self.counts: collections.Counter[str] = collections.Counter()
        self.findings: list[Finding] = []
        self.throttled_until_ns = 0
        self.dead = -1
        self._is_calm = False
        self._digest = 0
        self._step_ns = -1
        self._sent: list[Sent] = []
        self._told: list[Sent] = []
        self._askers: dict[bytes, Callable[[], Outcome | None]] = {}
        self._everyone: list[Client] = []
        self._callers: dict[tuple[int, int], Caller] = {}
        self._probes: list[Sent] = []
        self.cluster = EmbeddedCluster(
            brokers=plan.brokers,
            topics=plan.topics,
            config=EmbeddedConfig(auto_create_topics=False),
            clock=self.scheduler.clock,
            network=self.network,
        )
        self.network.on_broker_work = self._broker_work
        self.clients: list[Client] = []
        self.bootstrap_servers = ""

    # What entries of the plan use.

    def count(self, name: str) -> None:
        """Count something rare."""
        self.counts[name] += 1

    def find(self, invariant: str, text: str) -> None:
        """Note a broken invariant."""
        now_ms = self.scheduler.now_ns / 1e6
        self.findings.append(Finding(invariant, f"at {now_ms:.3f} ms: {text}"))

    def later(self, delay_ms: int, action: Callable[[], object]) -> None:
        """Undo a fault, unless the calm has begun by then."""
        self.scheduler.after(delay_ms * MS, lambda: None if self._is_calm else action())

    def is_alive(self, broker: int) -> bool:
        """Return whether a broker runs."""
        return self.cluster._kprod.engine.state.is_alive(broker)

    def revive(self, broker: int) -> None:
        """Start a broker if it is stopped."""
        if not self.is_alive(broker):
            self.cluster.start_broker(broker)

    def replace(self, client: Client, timeout_s: float = 0) -> None:
        """Close a producer and make another in its place."""
        if client in self.clients:  # another thread may have replaced it
            self.clients[self.clients.index(client)] = self._new_client(client.settings)
        client.end(timeout_s)

    # What records tell.

    def accepted(self, record: Sent, ask: Callable[[], Outcome | None]) -> None:
        """Note a record that `send` took."""
        self.note(b"sent", record.name)
        config = self._client_of(record).producer._kprod.config
        record.deadline_ns = self.scheduler.now_ns + config.delivery_timeout_ms * MS
        self._sent.append(record)
        self._askers[record.name] = ask
        self._client_of(record).records.append(record)

    def rejected(self, record: Sent, error: BaseException) -> None:
        """Note a record that `send` did not take."""
        self.note(b"rejected", record.name)
        self.count(f"send raised {type(error).__name__}")

    def told(self, record: Sent, outcome: Outcome) -> None:
        """Note what an observer was told."""
        self.note(b"told", record.name + repr(outcome).encode())
        if not record.told:
            record.settled_ns = self.scheduler.now_ns
            self._told.append(record)
        record.told.append(outcome)

    def ask(self, record: Sent) -> Outcome | None:
        """Return how a record ended; None if it has not."""
        return self._askers[record.name]()

    def closed(self, client: Client, undelivered: int) -> None:
        """Look at what a closed producer leaves."""
        self.note(b"closed", b"%d %d" % (client.number, undelivered))
        outcomes = [self.ask(record) for record in client.records]
        expected = sum(outcome is None or outcome.error == "ClosedError" for outcome in outcomes)
        if undelivered > len(outcomes) or undelivered < expected:
            self.find("Q6", f"close returned {undelivered}, {expected} were not delivered")

    # The tap.

    def connected(self, link: Link) -> None:
        """Note a connection attempt."""
        self.note(b"connect", b"%d" % link.port)
        self._everyone[link.client].tap.connected(link)

    def wrote(self, link: Link, data: bytes) -> None:
        """Note bytes that a client wrote, and look for freed memory in them."""
        self.note(b"wrote%d" % link.number, data)
        self._everyone[link.client].tap.wrote(link, data)
        if POISON in data:
            self.find("I6", f"freed memory was written to link {link.number}")

    def read(self, link: Link, data: bytes) -> None:
        """Note bytes that a client read."""
        self.note(b"read%d" % link.number, data)
        self._everyone[link.client].tap.read(link, data)

    def shut(self, link: Link) -> None:
        """Note a link that a client closed."""
        self.note(b"shut", b"%d" % link.number)
        self._everyone[link.client].tap.shut(link)

    def note(self, kind: bytes, data: bytes) -> None:
        """Add something that happened to the digest."""
        self._digest = zlib.crc32(
            b"%d %b %d" % (self.scheduler.now_ns, kind, len(data)), self._digest
        )
        self._digest = zlib.crc32(data, self._digest)

    # The run.

    def run(self) -> Verdict:
        """Run the plan to its end, and judge."""
        with quiet_log(), ExitStack() as stack:
            if self.plan.mode == "threads":
                kind = stack.enter_context(virtual_threads(self.scheduler, self.plan.seed))
                stack.callback(lambda: self.counts.update({"wait for a lock": kind.waits}))
            try:
                self._run(self.scheduler.now_ns)
            except LivelockError as error:
                self.find("I12", str(error))
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
        self.scheduler.event_limit = 400_000
        self.scheduler.run_until(origin_ns + self.plan.load_ms * MS)
        self._heal()
        self._probe()
        self._rest()
        self._judge()

    def _operate(self, entry: Entry) -> None:
        if self.plan.mode != "threads":
            self._act(entry)
            return
        place = (entry["producer"], entry["caller"])
        if place not in self._callers:
            self._callers[place] = Caller(self.scheduler)
        self._callers[place].add(partial(self._act, entry))

    def _act(self, entry: Entry) -> None:
        client = self.clients[entry["producer"]]
        kinds = WAITING if self.plan.mode == "threads" else OPERATIONS
        kinds[entry["kind"]](self, client, entry)

    def _break(self, entry: Entry) -> None:
        self.count(f"fault {entry['kind']}")
        self.note(b"fault", entry["kind"].encode())
        FAULTS[entry["kind"]](self, entry)

    def _heal(self) -> None:
        self._is_calm = True
        self.cluster.faults.clear()
        for broker in range(self.plan.brokers):
            self.cluster.faults.resume(broker)
            self.revive(broker)
        if self.plan.ending == "partial":
            self.dead = self.plan.seed % self.plan.brokers
            self.cluster.faults.stall(self.dead)
        for api in (0, 3):
            self.cluster.throttle(api, 0)
        for topic, count in self.plan.topics.items():
            self.cluster.remember_topic(topic)
            for partition in range(count):
                for node in self.cluster.describe(topic, partition).replicas:
                    self.cluster.set_follower_lag(topic, partition, node, 0)
        for client in self._everyone:
            if client.selector.sleeper is not None:
                client.selector.sleeper.thaw()
        self.network.heal()
        self.network.tell_all()

    def _probe(self) -> None:
        """I14, Q1: after the faults each partition takes a fresh record, soon."""
        probes = [
            Probe(place, topic, partition)
            for place in range(len(self.clients))
            for topic, count in sorted(self.plan.topics.items())
            for partition in range(count)
            if self.cluster.describe(topic, partition).leader_id != self.dead
        ]
        configs = [client.producer._kprod.config for client in self.clients]
        request_ms = max(config.request_timeout_ms for config in configs)
        linger_ms = max(config.linger_ms for config in configs)
        begin_ns = max(self.scheduler.now_ns, self.throttled_until_ns)
        if self.dead >= 0:  # a question about the cluster may have gone to it first
            request_ms *= 3
        end_ns = begin_ns + (request_ms + linger_ms + PROBE_SLACK_MS) * MS
        left = self._try(probes, end_ns)
        if self.dead >= 0 and any(probe.client(self).waits_for_epoch for probe in left):
            # What was sent to the dead broker has an unknown outcome until its deadline.
            self.count("partitions wait for an epoch")
            delivery_ms = max(config.delivery_timeout_ms for config in configs)
            left = self._try(left, end_ns + (delivery_ms + request_ms) * MS)
        for probe in left:
            self.find("Q1", probe.describe(self))

    def _try(self, probes: list[Probe], end_ns: int) -> list[Probe]:
        """Send fresh records until an instant; return what was not acknowledged."""
        while probes and self.scheduler.now_ns < end_ns:
            for probe in probes:
                self._call(partial(probe.try_again, self))
            self.scheduler.run_until(self.scheduler.now_ns + PROBE_PACE_MS * MS)
            probes = [probe for probe in probes if not probe.is_acknowledged(self)]
        return probes

    def _call(self, call: Callable[[], object]) -> None:
        """Make a call of the application: here, or in a thread of its own if it may wait."""
        if self.plan.mode == "threads":
            caller = Caller(self.scheduler)
            self._callers[-1, len(self._callers)] = caller
            caller.add(call)
            caller.end()
        else:
            call()

    def _rest(self) -> None:
        """Let deadlines pass and late requests arrive, then close what is open."""
        configs = [client.producer._kprod.config for client in self._everyone]
        rest_ms = max(
            config.delivery_timeout_ms + SETTLE_TIMEOUTS * config.request_timeout_ms
            for config in configs
        )
        for caller in self._callers.values():
            caller.end()
        self.scheduler.run_until(self.scheduler.now_ns + rest_ms * MS)
        stuck = sum(not caller.is_over for caller in self._callers.values())
        if stuck:
            self.find("Q4", f"{stuck} threads of the application wait for ever")
        for client in self.clients:
            if not client.producer._kprod.is_open:
                self.find("I8", f"the sender of sim-{client.number} died")
            self._call(client.end)
        self.scheduler.run_until(self.scheduler.now_ns + 1_000 * MS)
        for client in self._everyone:
            lent_bytes = client.producer._kprod.pool.lent_bytes
            if lent_bytes:
                self.find("I6", f"sim-{client.number} keeps {lent_bytes} bytes after close")
            if not client.has_ended:
                self.find("I7", f"sim-{client.number} does not close")

    def _judge(self) -> None:
        for record in self._sent:
            record.final = self.ask(record)
            self.counts[
                "acknowledged" if record.final and not record.final.error else "failed"
            ] += 1
            if record.final and record.final.persistence:
                self.counts[record.final.persistence] += 1
        for client in self._everyone:
            self.counts["pipelined"] += client.tap.pipelined
            self.counts["response that does not fit"] += client.tap.wrong_responses
        promises = {client.number: client.promises for client in self._everyone}
        batches = {topic: self.cluster.batches(topic) for topic in self.plan.topics}
        for record in self._sent:
            record.deadline_ns = self._client_of(record).thawed_ns(record.deadline_ns)
        self.findings += check(self._sent, read_logs(batches), promises, TICK_NS)
        self.findings += check_callbacks(self._told, promises)
        self.cluster.close()

    # The brokers.

    def _broker_work(self) -> None:
        if self._step_ns != self.scheduler.now_ns:
            self._step_ns = self.scheduler.now_ns
            self.scheduler.after(0, self._step)

    def _step(self) -> None:
        self._step_ns = -1
        due_ms = self.cluster.step(self.scheduler.clock.now_ms())
        if due_ms is not None:
            self.scheduler.at(due_ms * MS, self._step)

    def _new_client(self, settings: dict[str, object]) -> Client:
        client = Client(self, len(self._everyone), settings)
        self._everyone.append(client)
        return client

    def _client_of(self, record: Sent) -> Client:
        return self._everyone[record.client]


@contextmanager
def quiet_log() -> Generator[None]:
    """Keep kprod's log lines from being made: a run has thousands of faults."""
    logger = logging.getLogger("kprod")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def virtual_threads(scheduler: Scheduler, seed: int) -> Generator[SimThreads]:
    """Have threads, and the clock of waits, of the simulation."""
    kind = SimThreads(scheduler, seed)
    threads.use(kind)
    wait_by(scheduler.clock)
    try:
        yield kind
    finally:
        wait_by(None)
        threads.use(threads.SYSTEM)


def simulate(plan: Plan) -> Verdict:
    """Run a plan."""
    return World(plan).run()
