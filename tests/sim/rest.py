"""Times of a run without faults: everything pending must complete by itself.

Nothing wakes a sender but its own timers and its brokers' responses, so a wake-up that it misses
shows here, and nowhere else.

Source: Q3 of the invariants of quality.
"""

from functools import partial
from typing import TYPE_CHECKING

from tests.sim.ending import PROBE_SLACK_MS, heal
from tests.sim.scheduler import MS

if TYPE_CHECKING:
    from tests.sim.client import Client
    from tests.sim.world import World


class Rest:
    """One rest.

    Args:
        world: World of the run.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self._began_ns = 0

    def begin(self) -> None:
        """Heal everything, and look at each producer when it has had the time to recover."""
        world = self._world
        self._began_ns = world.scheduler.now_ns
        heal(world)
        world.count("rest")
        begin_ns = max(self._began_ns, world.throttled_until_ns)
        for client in world.everyone.values():
            if not client.is_over:
                end_ns = begin_ns + self._limit_ms(client) * MS
                world.scheduler.at(end_ns, partial(self._look, client))

    def _limit_ms(self, client: "Client") -> int:
        config = client.producer._kprod.config
        return config.request_timeout_ms + config.linger_ms + PROBE_SLACK_MS

    def _look(self, client: "Client") -> None:
        """Q3: records accepted before the rest are settled."""
        world = self._world
        if client.is_lost or client.is_over or client.slow_until_ns > self._began_ns:
            return
        late = [
            record.name.decode()
            for record in client.records
            if record.accepted_ns <= self._began_ns and world.ledger.is_open(record)
        ]
        if late:
            began_ms = self._began_ns / MS
            text = f"{len(late)} records of sim-{client.number} are open, such as {late[0]}"
            world.find("Q3", f"{text}, though everything is well since {began_ms:.3f} ms")
