"""Answers to probes: before a connection, with one, without one, and at the end."""

import asyncio
import os

import pytest

from kprod import AsyncProducer, Producer, ProducerHealth
from kprod.broker import EmbeddedCluster

SERVED = ProducerHealth(is_alive=True, is_connected=True, reason=None)


def test_a_producer_that_delivered_is_well() -> None:
    """Alive and connected, with no reason."""
    with EmbeddedCluster(1, {"orders": 1}) as cluster:
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send("orders", b"order").result()
            assert producer.health() == SERVED
        closed = producer.health()
        assert (closed.is_alive, closed.is_connected) == (False, False)
        assert "closed" in (closed.reason or "")


def test_brokers_out_of_reach_leave_it_alive() -> None:
    """A restart would lose the waiting records; the reason names the address."""
    with Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=300) as producer:
        with pytest.raises(Exception, match=r"127\.0\.0\.1:1"):
            producer.send("orders", b"order")
        health = producer.health()
        assert (health.is_alive, health.is_connected) == (True, False)
        assert "127.0.0.1:1" in (health.reason or "")


def test_a_lost_connection_is_seen() -> None:
    """Until there is another."""
    with EmbeddedCluster(1, {"orders": 1}) as cluster:
        settings = {"bootstrap_servers": cluster.bootstrap_servers, "delivery_timeout_ms": 60_000}
        with Producer(settings) as producer:
            producer.send("orders", b"order").result()
            cluster.stop_broker(0)
            future = producer.send("orders", b"another")
            while producer.health().is_connected:
                assert not future.done()
            assert producer.health().is_alive
            cluster.start_broker(0)
            future.result()
            assert producer.health() == SERVED


def test_a_forked_child_has_none() -> None:
    """Its copy of the producer does nothing."""
    with (
        EmbeddedCluster(1, {"orders": 1}) as cluster,
        Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        producer.send("orders", b"order").result()
        child = os.fork()
        if child == 0:
            health = producer.health()
            os._exit(health.is_alive or "parent of process" not in str(health.reason))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert producer.health() == SERVED


def test_an_asynchronous_producer() -> None:
    """Not alive before the start, nor after the close."""

    async def ask() -> list[ProducerHealth]:
        producer = AsyncProducer(bootstrap_servers=cluster.bootstrap_servers)
        seen = [producer.health()]
        await producer.start()
        await producer.send_and_wait("orders", b"order")
        seen.append(producer.health())
        await producer.close()
        return [*seen, producer.health()]

    with EmbeddedCluster(1, {"orders": 1}) as cluster:
        before, during, after = asyncio.run(ask())
    assert (before.is_alive, before.reason) == (False, "the producer is not started")
    assert during == SERVED
    assert (after.is_alive, after.reason) == (False, "the producer is closed")
