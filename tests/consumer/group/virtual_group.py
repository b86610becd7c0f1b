"""Consumers and an embedded cluster in one thread, in virtual time."""

import random
from typing import TYPE_CHECKING, Any, Self

from kprod.consumer.consumer import Consumer
from kprod.consumer.consumer_face import engine_of
from kprod.consumer.consumer_wiring import ConsumerEnvironment
from kprod.consumer.group.group_parts import GroupParts
from kprod.consumer.group.member_state import MemberState
from kprod.network.address_cursor import SocketAddress
from kprod.network.connection_context import NetworkIO
from kprod.protocol.api import ApiKey
from tests.broker.world import World, batch
from tests.network.scripted import MemorySelector, MemoryTransport, ScriptedResolver

if TYPE_CHECKING:
    from tests.broker.memory_network import MemoryStream

STEP_MS = 5


class Listener:
    """A listener that notes its calls."""

    def __init__(self) -> None:
        """Start without calls."""
        self.calls: list[tuple[str, list[int]]] = []

    def on_assigned(self, _consumer: Any, keys: Any) -> None:
        """Note it."""
        self.calls.append(("assigned", sorted(key.partition for key in keys)))

    def on_revoked(self, _consumer: Any, keys: Any) -> None:
        """Note it."""
        self.calls.append(("revoked", sorted(key.partition for key in keys)))

    def on_lost(self, _consumer: Any, keys: Any) -> None:
        """Note it."""
        self.calls.append(("lost", sorted(key.partition for key in keys)))


class VirtualGroup:
    """A cluster, and consumers whose loops all run while one of them waits."""

    def __init__(self, partitions: int = 4, **world: Any) -> None:
        """Open a cluster with one topic."""
        self.world = World(brokers=1, topics={"orders": partitions}, **world)
        self.consumers: list[Consumer] = []
        self._pipes: list[tuple[MemoryTransport, MemoryStream]] = []
        self._is_inside = False
        self.is_silent = False  # whether the network carries nothing
        self._client = self.world.client()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close every consumer."""
        for consumer in self.consumers:
            consumer.close(1)

    def member(self, *topics: str, listener: Listener | None = None, **settings: Any) -> Consumer:
        """Make a consumer of group `g`."""
        selector = MemorySelector()
        selector.before_select = self._turn
        io = NetworkIO(selector=selector, resolver=ScriptedResolver(), connect=self._connect)
        number = len(self.consumers)
        consumer = Consumer(
            bootstrap_servers="127.0.0.1:9000",
            environment=ConsumerEnvironment(
                clock=self.world.clock,
                rng=random.Random(number),
                io=lambda _settings: io,
                is_threaded=False,
            ),
            **{"group_id": "g", "client_id": f"c{number}", "auto_offset_reset": "earliest"}
            | settings,
        )
        self.consumers.append(consumer)
        if topics:
            consumer.subscribe(topics, listener)
        return consumer

    def fill(self, count: int, *partitions: int) -> None:
        """Append records to partitions."""
        for number in partitions:
            self._client.produced(batch(count), partition=number)

    def ask(self, api: ApiKey, version: int, body: dict[str, Any]) -> dict[str, Any]:
        """Send a request of an administrator."""
        return self._client.ask(api, version, body)

    def poll(self, *consumers: Consumer, seconds: float = 5.0) -> dict[Consumer, list[Any]]:
        """Poll some consumers in turn for a time."""
        found: dict[Consumer, list[Any]] = {each: [] for each in consumers}
        until_ms = self.world.clock.now_ms() + seconds * 1_000
        while self.world.clock.now_ms() < until_ms:
            for each in consumers:
                found[each] += each.poll(0.05)
        return found

    def pass_time(self, seconds: float) -> None:
        """Let time pass while no application polls."""
        until_ms = self.world.clock.now_ms() + seconds * 1_000
        while self.world.clock.now_ms() < until_ms:
            self._turn()

    def _connect(self, address: SocketAddress) -> MemoryTransport:
        transport = MemoryTransport(address)
        transport.is_connected = True
        self._pipes.append((transport, self.world.network.connect(address.port)))
        return transport

    def _turn(self) -> None:
        """Move bytes, run the cluster and the other consumers' loops, and let time pass."""
        if self._is_inside:
            return
        self._is_inside = True
        try:
            self.world.clock.advance(STEP_MS)
            self._move()
            for each in self.consumers:
                engine = engine_of(each)
                if engine.state != "closed":
                    engine.parts.loop.run_once(self.world.clock.now_ms())
            self._move()
        finally:
            self._is_inside = False

    def _move(self) -> None:
        if self.is_silent:
            return
        for transport, stream in self._pipes:
            if transport.is_closed:
                stream.client_closed = True
            stream.incoming += transport.to_peer
            transport.to_peer.clear()
        self.world.step()
        for transport, stream in self._pipes:
            transport.from_peer += stream.outgoing
            stream.outgoing.clear()
            transport.is_eof = transport.is_eof or stream.closed


def group_of(consumer: Consumer) -> GroupParts:
    """Return the group parts of a consumer."""
    group = engine_of(consumer).parts.group
    assert group is not None
    return group


def state_of(consumer: Consumer) -> MemberState:
    """Return a member's state."""
    return group_of(consumer).membership.state


def numbers(consumer: Consumer) -> list[int]:
    """Return the numbers of the assigned partitions."""
    return sorted(key.partition for key in consumer.assignment())
