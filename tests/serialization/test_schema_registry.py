"""confluent-kafka's Avro serializers used as they are, against a stub Schema Registry.

The stub is an HTTP server on loopback that knows the few paths that the serializers ask for. What
they write is read back by confluent-kafka's own deserializers.
"""

import asyncio
import json
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField
from confluent_kafka.serialization import SerializationContext as PeerContext

from kprod import AsyncProducer, Producer
from kprod.broker import EmbeddedCluster
from kprod.errors import SerializationError
from kprod.serialization import SerializationContext, serialize_str

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": "string"}],
    }
)


class _Registry(ThreadingHTTPServer):
    """Keeps schemas by id, and whom it was asked by which path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.schemas: list[str] = []
        self.subjects: list[str] = []
        self.is_broken = False

    @property
    def url(self) -> str:
        """The address of the registry."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    """Registers a schema under a subject, and gives it back by id."""

    server: _Registry

    def do_POST(self) -> None:
        """Register, or look up."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        _, _, subject, *_ = self.path.split("?")[0].split("/")
        if self.server.is_broken:
            self._answer({"error_code": 50001, "message": "the registry is broken"}, 500)
            return
        self.server.subjects.append(subject)
        if body["schema"] not in self.server.schemas:
            self.server.schemas.append(body["schema"])
        number = self.server.schemas.index(body["schema"]) + 1
        known = {"id": number, "guid": str(uuid.UUID(int=number)), "subject": subject, "version": 1}
        self._answer({**known, "schema": body["schema"]})

    def do_GET(self) -> None:
        """Give a schema by id; nothing else is there, as in a registry of some years ago."""
        start, _, name = self.path.split("?")[0].rpartition("/")
        if start != "/schemas/ids":
            self._answer({"error_code": 404, "message": "HTTP 404 Not Found"}, 404)
            return
        self._answer({"schema": self.server.schemas[int(name) - 1]})

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self, body: dict[str, Any], status: int = 200) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def registry() -> Iterator[_Registry]:
    """One that runs."""
    with _Registry() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def client(registry: _Registry) -> Iterator[SchemaRegistryClient]:
    """A client of it that does not try again."""
    with SchemaRegistryClient({"url": registry.url, "max.retries": 0}) as opened:
        yield opened


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker, one partition."""
    with EmbeddedCluster(brokers=1, topics={"orders": 1}) as running:
        yield running


def _read_back(client: SchemaRegistryClient, value: bytes | None) -> object:
    return AvroDeserializer(client)(value, PeerContext("orders", MessageField.VALUE))


def test_an_avro_serializer_is_used_as_it_is(
    registry: _Registry, client: SchemaRegistryClient, cluster: EmbeddedCluster
) -> None:
    """The schema is registered once, under the topic's subject; the values are read back equal."""
    orders = [{"id": number, "item": f"item {number}"} for number in range(100)]
    with Producer(
        bootstrap_servers=cluster.bootstrap_servers,
        key_serializer=serialize_str,
        value_serializer=AvroSerializer(client, ORDER),
    ) as producer:
        for order in orders:
            producer.send("orders", order, key=str(order["id"]))
        producer.send("orders", None, key="1")
    records = cluster.records("orders")[0]
    assert [_read_back(client, record.value) for record in records] == [*orders, None]
    assert registry.subjects == ["orders-value"]
    assert {(record.value or b"\0\0\0\0\1")[:5] for record in records} == {b"\0\0\0\0\1"}


def test_keys_have_a_subject_of_their_own(
    registry: _Registry, client: SchemaRegistryClient, cluster: EmbeddedCluster
) -> None:
    """One serializer object for both is told which it serializes."""
    serializer = AvroSerializer(client, ORDER)
    with Producer(
        bootstrap_servers=cluster.bootstrap_servers,
        key_serializer=serializer,
        value_serializer=serializer,
    ) as producer:
        order = {"id": 1, "item": "x"}
        producer.send("orders", order, key=order).result(10)
    assert registry.subjects == ["orders-key", "orders-value"]


def test_a_schema_id_in_the_headers_arrives(
    client: SchemaRegistryClient, cluster: EmbeddedCluster
) -> None:
    """Headers that a serializer appends to the context's headers are sent with the record."""
    serializer = AvroSerializer(
        client, ORDER, conf={"schema.id.serializer": header_schema_id_serializer}
    )
    with Producer(
        bootstrap_servers=cluster.bootstrap_servers, value_serializer=serializer
    ) as producer:
        producer.send("orders", {"id": 1, "item": "x"}, headers={"own": b"h"}).result(10)
    (record,) = cluster.records("orders")[0]
    assert [name for name, _ in record.headers] == ["own", "__value_schema_id"]


def test_it_serves_asyncio_too(
    registry: _Registry, client: SchemaRegistryClient, cluster: EmbeddedCluster
) -> None:
    """The registry is asked beforehand, in a thread, so that no send asks it in the loop."""

    async def deliver() -> list[int]:
        serializer = AvroSerializer(client, ORDER)
        order = {"id": 1, "item": "x"}
        context = SerializationContext(topic="orders", field="value")
        await asyncio.to_thread(serializer, order, context)
        asked = len(registry.subjects)
        async with AsyncProducer(
            bootstrap_servers=cluster.bootstrap_servers, value_serializer=serializer
        ) as producer:
            deliveries = [await producer.send("orders", order) for _ in range(10)]
            offsets = [(await delivery).offset for delivery in deliveries]
        assert len(registry.subjects) == asked == 1
        return offsets

    assert asyncio.run(deliver()) == list(range(10))


def test_what_the_serializer_rejects_is_not_sent(
    registry: _Registry, client: SchemaRegistryClient, cluster: EmbeddedCluster
) -> None:
    """A value that does not fit the schema, and a registry that is broken."""
    with Producer(
        bootstrap_servers=cluster.bootstrap_servers,
        value_serializer=AvroSerializer(client, ORDER),
    ) as producer:
        registry.is_broken = True
        with pytest.raises(SerializationError, match="the registry is broken"):
            producer.send("orders", {"id": 1, "item": "x"})
        registry.is_broken = False
        with pytest.raises(SerializationError, match="value_serializer failed for 'orders'"):
            producer.send("orders", {"id": "one", "item": "x"})
        producer.send("orders", {"id": 1, "item": "x"}).result(10)
    assert len(cluster.records("orders")[0]) == 1
