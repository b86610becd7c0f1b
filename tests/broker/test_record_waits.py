"""Waiting for records that come later: there at once, in time, or told how many there were."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from kprod import Producer
from kprod.broker import EmbeddedCluster
from kprod.errors import KprodTimeout


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker that makes topics of two partitions."""
    with EmbeddedCluster(1, default_partitions=2) as opened:
        yield opened


def send(cluster: EmbeddedCluster, count: int) -> None:
    """Send records to two partitions in turn, one request each."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(count):
            producer.send("orders", b"%d" % number, partition=number % 2).result(30)


def test_records_that_come_later(cluster: EmbeddedCluster) -> None:
    """The topic is made meanwhile; all records are returned by partition."""
    sender = threading.Thread(target=send, args=(cluster, 5))
    sender.start()
    found = cluster.wait_for_records("orders", 5, timeout=30)
    sender.join()
    assert [record.value for record in found[0]] == [b"0", b"2", b"4"]
    assert [record.value for record in found[1]] == [b"1", b"3"]


def test_records_that_are_there(cluster: EmbeddedCluster) -> None:
    """More than were waited for are returned too."""
    send(cluster, 3)
    assert sum(map(len, cluster.wait_for_records("orders", 1, timeout=0).values())) == 3


def test_too_few_records_are_told(cluster: EmbeddedCluster) -> None:
    """Also of a topic that does not exist."""
    with pytest.raises(KprodTimeout, match=r"'orders' has 0 records of 1 after 0.02 s"):
        cluster.wait_for_records("orders", timeout=0.02)
    send(cluster, 1)
    with pytest.raises(KprodTimeout, match=r"'orders' has 1 record of 2 after 0.02 s"):
        cluster.wait_for_records("orders", 2, timeout=0.02)


def test_the_event_loop_runs_meanwhile(cluster: EmbeddedCluster) -> None:
    """A task of the same loop sends them; a wait without them ends in time."""

    async def main() -> list[bytes | None]:
        wait = asyncio.create_task(cluster.async_wait_for_records("orders", 2, timeout=30))
        await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(None, send, cluster, 2)
        found = await wait
        with pytest.raises(KprodTimeout, match="2 records of 3"):
            await cluster.async_wait_for_records("orders", 3, timeout=0.02)
        return [record.value for records in found.values() for record in records]

    assert asyncio.run(main()) == [b"0", b"1"]
