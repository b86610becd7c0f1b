"""The objects that connections share, and their I/O."""

import random
import socket

from kprod.config import ClientConfig
from kprod.config.address import parse_addresses
from kprod.metrics.recorder import SilentRecorder
from kprod.network.address_cursor import SocketAddress
from kprod.network.connection_context import ConnectionContext, system_io
from kprod.network.in_flight import CORRELATION_ID_MAX
from kprod.timer.timer import Timer
from tests.network.scripted import World


def test_correlation_ids_begin_again_below_those_of_sasl() -> None:
    """The last eight of an int32 belong to the authentication exchange."""
    world = World()
    settings = ClientConfig(bootstrap_servers=parse_addresses("a:1")).network_settings()
    context = ConnectionContext(
        settings,
        world.client._context.io,
        timer=Timer(0),
        rng=random.Random(1),
        recorder=SilentRecorder(),
        listener=world.client,
    )
    assert [context.next_correlation_id() for _ in range(3)] == [0, 1, 2]
    context._correlation_id = CORRELATION_ID_MAX - 1

    assert [context.next_correlation_id() for _ in range(2)] == [CORRELATION_ID_MAX, 0]


def test_system_doors_open_real_sockets() -> None:
    """Connecting, name resolution and waking work together, and close."""
    settings = ClientConfig(bootstrap_servers=parse_addresses("a:1")).network_settings()
    io = system_io(settings)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        transport = io.connect(SocketAddress(socket.AF_INET, *listener.getsockname()))
        io.resolver.request("localhost", 1)
        found = io.resolver.take()
        while not found:
            io.selector.select(30_000)
            found = io.resolver.take()
        transport.close()
    io.resolver.close()
    io.selector.close()

    assert [resolution.host for resolution in found] == ["localhost"]
