"""The `repr` of public objects: name, state, brokers; at any time, and without secrets."""

import asyncio

import pytest

from kprod import AsyncConsumer, AsyncProducer, Consumer, Producer
from kprod.broker import EmbeddedCluster
from kprod.errors import ConfigError


def test_a_producer_names_itself_its_state_and_its_brokers() -> None:
    """Open, then closed; the client id that brokers see."""
    with EmbeddedCluster(brokers=1) as cluster:
        servers = cluster.bootstrap_servers
        producer = Producer(bootstrap_servers=servers, client_id="till")
        assert repr(producer) == f"<Producer 'till', open, bootstrap_servers={servers!r}>"
        producer.close()
        assert repr(producer) == f"<Producer 'till', closed, bootstrap_servers={servers!r}>"


def test_a_consumer_names_itself_its_state_and_what_it_reads() -> None:
    """Open, then closed; how many partitions it has, and its brokers."""
    with EmbeddedCluster(brokers=1, topics={"orders": 2}) as cluster:
        servers = cluster.bootstrap_servers
        consumer = Consumer(bootstrap_servers=servers, client_id="till")
        consumer.assign([("orders", 0), ("orders", 1)])
        rest = f"2 partitions, bootstrap_servers={servers!r}>"
        assert repr(consumer) == f"<Consumer 'till', open, {rest}"
        consumer.close()
        assert repr(consumer).startswith("<Consumer 'till', closed, ")


def test_many_brokers_are_counted() -> None:
    """The first three, and how many more."""
    servers = ",".join(f"b{number}:9092" for number in range(5))
    producer = Producer(bootstrap_servers=servers)
    text = repr(producer)
    producer.close(0)
    assert "bootstrap_servers='b0:9092,b1:9092,b2:9092 and 2 more'" in text


def test_an_object_whose_init_has_not_run_says_so() -> None:
    """A debugger shows it, too, while an error is looked at."""
    for kind in (Producer, AsyncProducer, Consumer, AsyncConsumer, EmbeddedCluster):
        assert repr(kind.__new__(kind)).startswith(f"<{kind.__name__}, not made")


def test_a_producer_that_was_rejected_says_so() -> None:
    """Its settings were wrong; a traceback shows the incomplete object."""
    producer = Producer.__new__(Producer)
    with pytest.raises(ConfigError):
        producer.__init__(bootstrap_servers="nowhere")  # type: ignore[misc]
    assert repr(producer).startswith("<Producer, not made")


def test_a_subclass_has_its_own_name() -> None:
    """The application's class, not ours."""

    class Till(Producer):
        """An application's producer."""

    till = Till(bootstrap_servers="b:1", client_id="till")
    text = repr(till)
    till.close(0)
    assert text.startswith("<Till 'till', open")


def test_an_async_producer_names_itself_and_its_state() -> None:
    """Before the start, while it is open, and behind its end."""

    async def states(servers: str) -> list[str]:
        producer = AsyncProducer(bootstrap_servers=servers, client_id="till")
        found = [repr(producer)]
        await producer.start()
        found.append(repr(producer))
        await producer.close()
        found.append(repr(producer))
        return found

    with EmbeddedCluster(brokers=1) as cluster:
        servers = cluster.bootstrap_servers
        before, during, after = asyncio.run(states(servers))
    assert before == f"<AsyncProducer 'till', not started, bootstrap_servers={servers!r}>"
    assert during == f"<AsyncProducer 'till', open, bootstrap_servers={servers!r}>"
    assert after == f"<AsyncProducer 'till', closed, bootstrap_servers={servers!r}>"


def test_an_async_producer_that_was_never_started_can_be_closed() -> None:
    """It says so."""

    async def close() -> str:
        producer = AsyncProducer(bootstrap_servers="b:1")
        await producer.close()
        return repr(producer)

    assert asyncio.run(close()) == "<AsyncProducer, closed, bootstrap_servers='b:1'>"


def test_a_cluster_says_where_it_listens() -> None:
    """Not started, running, closed."""
    cluster = EmbeddedCluster(brokers=1)
    assert repr(cluster) == "<EmbeddedCluster of 1 broker, not started>"
    with cluster:
        servers = cluster.bootstrap_servers
        assert (
            repr(cluster) == f"<EmbeddedCluster of 1 broker, open, bootstrap_servers={servers!r}>"
        )
    assert repr(cluster) == "<EmbeddedCluster of 1 broker, closed>"


def test_no_secret_is_shown() -> None:
    """Only addresses and names: no other setting appears."""
    producer = Producer(bootstrap_servers="b:1", client_id="till", linger_ms=77)
    text = repr(producer)
    producer.close(0)
    assert "77" not in text
    assert text.count("=") == 1
