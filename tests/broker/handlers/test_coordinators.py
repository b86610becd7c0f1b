"""Requests that this broker does not serve fail permanently, so that clients do not wait."""

import asyncio

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from kprod.broker import EmbeddedCluster
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import World

LIMIT_S = 30.0


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (1, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (2, ErrorCode.INVALID_REQUEST),
    ],
)
@pytest.mark.parametrize("version", range(1, 7))
def test_a_coordinator_is_rejected_for_good(version: int, kind: int, code: int) -> None:
    """With a text that says why, in every version that has one."""
    names = {"coordinator_keys": ["name"]} if version >= 4 else {"key": "name"}

    answer = World().client().ask(ApiKey.FIND_COORDINATOR, version, {"key_type": kind, **names})

    told = answer["coordinators"][0] if version >= 4 else answer
    text = None if kind == 2 else "not served by this broker"
    assert (told["error_code"], told["error_message"] or None) == (code, text)
    assert told["node_id"] == -1


@pytest.mark.parametrize("version", range(7))
def test_a_group_has_a_coordinator(version: int) -> None:
    """Version 0 has no kinds of keys: it asks for groups."""
    names = {"coordinator_keys": ["name"]} if version >= 4 else {"key": "name"}
    world = World()

    answer = world.client().ask(ApiKey.FIND_COORDINATOR, version, names)

    told = answer["coordinators"][0] if version >= 4 else answer
    assert told["error_code"] == ErrorCode.NONE
    assert world.cluster.describe("__consumer_offsets", 5).leader_id >= 0
    assert told["port"] == 9_000 + told["node_id"]


def test_a_transactional_id_is_rejected_for_good() -> None:
    """COORDINATOR_NOT_AVAILABLE would be asked again."""
    answer = World().client().ask(ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": "t"})

    assert answer["error_code"] == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_librdkafka_learns_that_there_are_no_transactions() -> None:
    """Its own error, and not the end of its time."""
    with EmbeddedCluster(brokers=1) as cluster:
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "t"}
        producer = confluent_kafka.Producer(settings)
        with pytest.raises(confluent_kafka.KafkaException) as raised:
            producer.init_transactions(LIMIT_S)

    code = raised.value.args[0].code()
    assert code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_aiokafka_learns_that_there_are_no_transactions() -> None:
    """Its `start` ends with an error."""

    async def started(servers: str) -> BaseException | None:
        producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id="t")
        starting = asyncio.ensure_future(producer.start())
        await asyncio.wait({starting}, timeout=LIMIT_S)
        error = starting.exception() if starting.done() else None
        starting.cancel()
        await producer.stop()
        return error

    with EmbeddedCluster(brokers=1) as cluster:
        assert isinstance(asyncio.run(started(cluster.bootstrap_servers)), KafkaError)
