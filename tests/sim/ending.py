"""How a run ends: everything is healed, each partition is probed, all comes to rest."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tests.sim.caller import Caller
from tests.sim.probe import Probe
from tests.sim.scheduler import MS
from tests.sim.workload import LONGEST_SLEEP_MS

if TYPE_CHECKING:
    from tests.sim.world import World

SETTLE_TIMEOUTS = 10
PROBE_SLACK_MS = 1_600
PROBE_PACE_MS = 100


def heal(world: "World") -> None:
    """End every fault but the death of a broker."""
    cluster = world.cluster
    world.healed += 1
    world.machine.keep_power()
    cluster.faults.clear()
    for broker in range(world.plan.brokers):
        cluster.faults.resume(broker)
        world.revive(broker)
    if world.dead >= 0:
        cluster.faults.stall(world.dead)
    for api in (0, 1, 3):
        cluster.throttle(api, 0)
    for topic, count in world.topics.counts.items():
        cluster.remember_topic(topic)
        for partition in range(count if "lag" in world.book else 0):
            for node in cluster.describe(topic, partition).replicas:
                cluster.set_follower_lag(topic, partition, node, 0)
    for client in world.everyone.values():
        client.resolver.is_failing = False
        client.shortage.calls_left = 0
        if client.selector.sleeper is not None:
            client.selector.sleeper.thaw()
    world.readers.heal()
    world.groups.heal()
    world.crew.heal()
    world.network.heal()
    world.network.tell_all()


class Ending:
    """Ends one run.

    Args:
        world: Its load is over.
    """

    def __init__(self, world: "World") -> None:
        self._world = world

    def heal(self) -> None:
        """End every fault; in a partial ending one broker stays dead."""
        world = self._world
        if world.plan.ending == "partial":
            world.dead = world.plan.seed % world.plan.brokers
            world.happened("dead broker")
        heal(world)
        for client in [client for client in world.clients if client.is_lost]:
            world.count("producer replaced after a fatal error")
            self._call(partial(world.replace, client))

    def probe(self) -> None:
        """I14, Q1: after the faults each partition takes a fresh record, soon."""
        world = self._world
        probes = [
            Probe(place, topic, partition)
            for place in range(len(world.clients))
            for topic, count in sorted(world.topics.counts.items())
            for partition in range(count)
            if world.cluster.describe(topic, partition).leader_id != world.dead
        ]
        configs = [client.producer._kprod.config for client in world.clients]
        request_ms = max(config.request_timeout_ms for config in configs)
        linger_ms = max(config.linger_ms for config in configs)
        begin_ns = max(world.scheduler.now_ns, world.throttled_until_ns)
        if world.dead >= 0:  # a question about the cluster may have gone to it first
            request_ms *= 3
        slack_ms = PROBE_SLACK_MS + (LONGEST_SLEEP_MS if "slow callback" in world.book else 0)
        end_ns = begin_ns + (request_ms + linger_ms + slack_ms) * MS
        left = self._try(probes, end_ns)
        # A fatal response may have been in flight when the faults ended.
        for client in [client for client in world.clients if client.is_lost]:
            self._call(partial(world.replace, client))
            left = self._try(left, world.scheduler.now_ns + (request_ms + slack_ms) * MS)
        if left and world.book.keys() & {"grow_topic", "remake_topic", "reject_then_lose"}:
            # The partition is new, or another one: of each broker whose response hangs the client
            # hears by a timeout, one after the other.
            world.count("new partition is heard of late")
            hung_ms = world.plan.brokers * (request_ms + PROBE_SLACK_MS)
            left = self._try(left, world.scheduler.now_ns + hung_ms * MS)
        if world.dead >= 0 and any(probe.client(world).waits_for_epoch for probe in left):
            # Records sent to the dead broker have an unknown outcome until their deadline.
            world.count("partitions wait for an epoch")
            delivery_ms = max(config.delivery_timeout_ms for config in configs)
            left = self._try(left, end_ns + (delivery_ms + request_ms) * MS)
        for probe in left:
            world.find("Q1", probe.describe(world))

    def rest(self) -> None:
        """Let deadlines pass and late requests arrive, then close all that is open."""
        world = self._world
        world.readers.drain()
        configs = [client.producer._kprod.config for client in world.everyone.values()]
        rest_ms = max(
            config.delivery_timeout_ms + SETTLE_TIMEOUTS * config.request_timeout_ms
            for config in configs
        )
        for (producer, _), caller in world.callers.items():
            if isinstance(caller, Caller):
                if producer >= 0:
                    caller.drop()
                caller.end()
        self.run_for(rest_ms)
        while world.readers.are_reading and world.scheduler.now_ns < world.readers.end_ns:
            self.run_for(PROBE_PACE_MS)
        stuck = sum(not caller.is_over for caller in world.callers.values())
        if stuck:
            world.find("Q4", f"{stuck} threads of the application wait for ever")
        for client in world.clients:
            if not client.producer._kprod.is_open and not client.is_lost:
                world.find("I8", f"the sender of sim-{client.number} died")
            self._call(client.end)
        self.run_for(1_000)
        for caller in world.callers.values():
            caller.end()  # loops, which have heard of everything
        self.run_for(1_000)
        self._look_at_what_is_left()

    def _look_at_what_is_left(self) -> None:
        """I6, I7, I9: a closed producer keeps nothing."""
        world = self._world
        for client in world.everyone.values():
            lent_bytes = client.producer._kprod.pool.lent_bytes
            if lent_bytes and not client.shortage.failed:  # else it ended in the middle of a step
                world.find("I6", f"sim-{client.number} keeps {lent_bytes} bytes after close")
            if not client.has_ended:
                world.find("I7", f"sim-{client.number} does not close")
            links = [
                link.number
                for link in world.network.links
                if link.client == client.number and not link.transport.is_closed
            ]
            if links:
                world.find("I9", f"sim-{client.number} keeps the links {links} after close")

    def run_for(self, duration_ms: int) -> None:
        """Let time pass."""
        scheduler = self._world.scheduler
        scheduler.run_until(scheduler.now_ns + duration_ms * MS)

    def _try(self, probes: list[Probe], end_ns: int) -> list[Probe]:
        """Send fresh records until an instant; return the unacknowledged ones."""
        world = self._world
        while probes and world.scheduler.now_ns < end_ns:
            for probe in probes:
                self._call(partial(probe.try_again, world))
            self.run_for(PROBE_PACE_MS)
            probes = [probe for probe in probes if not probe.is_acknowledged(world)]
        return probes

    def _call(self, call: Callable[[], object]) -> None:
        """Make a call of the application: here, or in a thread of its own if it may wait."""
        if self._world.plan.mode == "engine":
            call()
        else:
            self._world.call_in_thread(call)
