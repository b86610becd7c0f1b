"""The attempts of a whole client: first ones are free, repeated ones have limits."""

import random

from kprod.cluster.refresh_schedule import NEVER_MS
from kprod.config import ClientConfig
from kprod.config.address import parse_addresses
from kprod.model import Node
from kprod.network.attempts import (
    ADDRESSES_MAX,
    LASTED_MS,
    REPEATED_PER_SECOND_MAX,
    ConnectionAttempts,
)

HERE, THERE = Node(1, "here", 9092), Node(2, "there", 9092)


def attempts_of(
    *, reconnect_backoff_ms: int = 50, reconnect_backoff_max_ms: int = 1_000
) -> ConnectionAttempts:
    """With nothing tried."""
    config = ClientConfig(
        bootstrap_servers=parse_addresses("here:9092"),
        reconnect_backoff_ms=reconnect_backoff_ms,
        reconnect_backoff_max_ms=reconnect_backoff_max_ms,
    )
    return ConnectionAttempts(config.network_settings(), random.Random(7))


def test_the_first_attempt_to_each_address_is_free() -> None:
    """A large cluster starts at once."""
    attempts = attempts_of()
    for number in range(500):
        node = Node(number, f"host-{number}", 9092)
        assert attempts.wait_ms(node, 1_000) == 0
        attempts.begin(node, 1_000)


def test_one_attempt_per_address_is_under_way() -> None:
    """Another id at the same address waits for its end, whatever the end is."""
    attempts = attempts_of()
    twin = HERE._replace(node_id=9)
    attempts.begin(HERE, 1_000)

    assert attempts.wait_ms(twin, 1_000) == NEVER_MS
    attempts.succeed(HERE, 1_000)
    assert attempts.wait_ms(twin, 1_000) == 0
    attempts.begin(twin, 1_000)
    assert attempts.fail(twin, 1_300, 1_000) == 1
    assert attempts.wait_ms(HERE, 1_000) == 300
    assert attempts.wait_ms(THERE, 1_000) == 0


def test_an_address_is_backed_off_from_whatever_its_nodes_say() -> None:
    """Each id has failed once; the address has failed often."""
    attempts = attempts_of(reconnect_backoff_ms=100, reconnect_backoff_max_ms=10_000)
    waits = []
    now_ms = 1_000
    for number in range(6):
        node = HERE._replace(node_id=number)
        attempts.begin(node, now_ms)
        assert attempts.fail(node, now_ms + 100, now_ms) == number + 1
        waits.append(attempts.wait_ms(node, now_ms))
        now_ms += waits[-1]

    assert waits == sorted(waits)
    assert waits[-1] >= 2_500


def test_repeated_attempts_share_a_limit_for_each_second() -> None:
    """The one above it waits until the oldest of them is a second ago."""
    attempts = attempts_of()
    nodes = [Node(number, f"host-{number}", 9092) for number in range(50)]
    for node in nodes:
        attempts.begin(node, 0)
        attempts.fail(node, 10, 0)
    begun = 0
    for now_ms in range(1_000, 4_000, 10):
        for node in nodes:
            if attempts.wait_ms(node, now_ms) == 0:
                attempts.begin(node, now_ms)
                attempts.succeed(node, 1_000)
                begun += 1

    assert begun == 3 * REPEATED_PER_SECOND_MAX
    assert attempts.wait_ms(nodes[0], 3_990) == 10


def test_an_address_whose_idle_connection_was_closed_starts_again() -> None:
    """Many connections that nobody used come back together without waiting in turn."""
    attempts = attempts_of()
    attempts.begin(HERE, 0)
    attempts.succeed(HERE, 1_000)
    for _ in range(REPEATED_PER_SECOND_MAX):
        attempts.begin(THERE, 5)
        attempts.succeed(THERE, 1_000)
    attempts.begin(THERE, 5)
    attempts.succeed(THERE, 1_000)
    assert attempts.wait_ms(HERE, 6) > 0
    attempts.forget(HERE)

    assert attempts.wait_ms(HERE, 6) == 0


def test_above_so_many_addresses_no_attempt_is_a_first_one() -> None:
    """A list that changes with each response gets no further than one that stays."""
    attempts = attempts_of()
    for number in range(ADDRESSES_MAX + REPEATED_PER_SECOND_MAX):
        node = Node(number, f"host-{number}", 9092)
        assert attempts.wait_ms(node, 1_000) == 0
        attempts.begin(node, 1_000)

    assert attempts.wait_ms(Node(1, "another", 9092), 1_100) == 900


def test_a_large_cluster_that_restarts_is_reached_at_once() -> None:
    """The first attempt after a connection that lasted does not count; the second does."""
    attempts = attempts_of()
    nodes = [Node(number, f"host-{number}", 9092) for number in range(500)]
    for node in nodes:
        attempts.begin(node, 1_000)
        attempts.succeed(node, 1_000)
    lost_ms = 1_000 + LASTED_MS
    for node in nodes:
        attempts.fail(node, lost_ms, lost_ms)
    for node in nodes:
        assert attempts.wait_ms(node, lost_ms) == 0
        attempts.begin(node, lost_ms)
        attempts.fail(node, lost_ms, lost_ms)
    later_ms = lost_ms + 1_000
    for node in nodes[:REPEATED_PER_SECOND_MAX]:
        assert attempts.wait_ms(node, later_ms) == 0
        attempts.begin(node, later_ms)
    assert attempts.wait_ms(nodes[-1], later_ms) == 1_000


def test_a_peer_that_hangs_up_soon_gains_no_free_attempt() -> None:
    """Else a list of a thousand such addresses would be connected to without end."""
    attempts = attempts_of()
    nodes = [Node(number, f"host-{number}", 9092) for number in range(500)]
    lost_ms = 1_000 + LASTED_MS - 1
    for node in nodes:
        attempts.begin(node, 1_000)
        attempts.succeed(node, 1_000)
        attempts.fail(node, lost_ms, lost_ms)
    begun = 0
    for node in nodes:
        if attempts.wait_ms(node, lost_ms) == 0:
            attempts.begin(node, lost_ms)
            begun += 1
    assert begun == REPEATED_PER_SECOND_MAX
