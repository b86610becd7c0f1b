"""The responses of both brokers to a user without permissions, API by API.

Source: Kafka's KafkaApis (4.3), KIP-11, KIP-396.
"""

import uuid
from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

import pytest

from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.broker.handlers.registry import HANDLERS
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.conformance.sides import Side, plain
from tests.plugins.kafka_secured import TOPIC, USERS, SecuredKafka

HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
NOBODY_ID = uuid.UUID(int=77)
OPEN = {ApiKey.API_VERSIONS, HANDSHAKE, AUTHENTICATE, ApiKey.DESCRIBE_CLUSTER}
"""The APIs that need no permission."""

THERE, NOT_THERE = TOPIC, "not-there"
_PARTITION = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}
_FETCH = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1_000, "session_epoch": -1}


class Case(NamedTuple):
    """One request; THERE_ID in it becomes the id of the topic that is there."""

    api: ApiKey
    version: int
    body: Mapping[str, Any]


def _produce(version: int, **where: Any) -> Case:
    topics = [where | {"partition_data": [{"index": 0, "records": b""}]}]
    return Case(ApiKey.PRODUCE, version, {"acks": -1, "timeout_ms": 1_000, "topic_data": topics})


def _fetch(version: int, **where: Any) -> Case:
    return Case(ApiKey.FETCH, version, {**_FETCH, "topics": [where | {"partitions": [_PARTITION]}]})


def _offsets(name: str) -> Case:
    topics = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    return Case(ApiKey.LIST_OFFSETS, 5, {"replica_id": -1, "topics": topics})


def _create(name: str) -> Case:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
    return Case(ApiKey.CREATE_TOPICS, 5, {"topics": [topic], "timeout_ms": 1_000})


def _configs(kind: int, name: str) -> Case:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": []}
    return Case(ApiKey.DESCRIBE_CONFIGS, 2, {"resources": [resource]})


def _alter(name: str) -> Case:
    change = {"name": "retention.ms", "value": "1"}
    resource = {"resource_type": 2, "resource_name": name, "configs": [change]}
    return Case(ApiKey.ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": True})


def _alter_one(name: str) -> Case:
    change = {"name": "retention.ms", "config_operation": 0, "value": "1"}
    resource = {"resource_type": 2, "resource_name": name, "configs": [change]}
    body = {"resources": [resource], "validate_only": True}
    return Case(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body)


def _delete_records(name: str) -> Case:
    topics = [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]}]
    return Case(ApiKey.DELETE_RECORDS, 2, {"topics": topics, "timeout_ms": 1_000})


def _epochs(name: str) -> Case:
    entry = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    topics = [{"topic": name, "partitions": [entry]}]
    return Case(ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, {"replica_id": -1, "topics": topics})


def _identity(transactional_id: str | None) -> Case:
    body = {"transactional_id": transactional_id, "transaction_timeout_ms": 1_000}
    return Case(ApiKey.INIT_PRODUCER_ID, 4, body)


THERE_ID = uuid.UUID(int=1)
CASES = [
    *(Case(ApiKey.METADATA, 9, {"topics": [{"name": it}]}) for it in (THERE, NOT_THERE, "a b")),
    Case(ApiKey.METADATA, 9, {"topics": None}),
    *(
        Case(ApiKey.METADATA, 12, {"topics": [{"name": None, "topic_id": it}]})
        for it in (THERE_ID, NOBODY_ID)
    ),
    *(_produce(9, name=it) for it in (THERE, NOT_THERE)),
    *(_produce(13, topic_id=it) for it in (THERE_ID, NOBODY_ID)),
    *(_fetch(11, topic=it) for it in (THERE, NOT_THERE)),
    *(_fetch(13, topic_id=it) for it in (THERE_ID, NOBODY_ID)),
    *map(_offsets, (THERE, NOT_THERE)),
    *map(_epochs, (THERE, NOT_THERE)),
    *map(_create, (THERE, NOT_THERE)),
    *(
        Case(ApiKey.DELETE_TOPICS, 5, {"topic_names": [it], "timeout_ms": 1_000})
        for it in (THERE, NOT_THERE)
    ),
    *(
        Case(
            ApiKey.DELETE_TOPICS,
            6,
            {"topics": [{"name": None, "topic_id": it}], "timeout_ms": 1_000},
        )
        for it in (THERE_ID, NOBODY_ID)
    ),
    *(
        Case(
            ApiKey.CREATE_PARTITIONS,
            1,
            {"topics": [{"name": it, "count": 9}], "timeout_ms": 1_000},
        )
        for it in (THERE, NOT_THERE)
    ),
    *(_configs(2, it) for it in (THERE, NOT_THERE)),
    _configs(4, "1"),
    *map(_alter, (THERE, NOT_THERE)),
    *map(_alter_one, (THERE, NOT_THERE)),
    *map(_delete_records, (THERE, NOT_THERE)),
    Case(ApiKey.DESCRIBE_LOG_DIRS, 4, {"topics": None}),
    *(
        Case(ApiKey.FIND_COORDINATOR, 4, {"key_type": it, "coordinator_keys": ["g"]})
        for it in (0, 1)
    ),
    *map(_identity, (None, "mine")),
    Case(ApiKey.DESCRIBE_CLUSTER, 0, {"include_cluster_authorized_operations": False}),
]


class Denied:
    """One broker, and what it answers somebody without rights."""

    def __init__(self, admin: Side, carol: Side) -> None:
        """Set two listeners of the broker.

        Args:
            admin: The listener for alice (all permissions).
            carol: The listener for carol (no permissions).
        """
        self.admin = admin
        self.carol = carol

    def answer(self, case: Case) -> Any:
        """Ask as carol; returns the response without what each cluster chooses for itself."""
        with self.admin.connect() as wire:
            if self.admin is self.carol:
                _log_in(wire, "alice")
            wish = {"topics": [{"name": THERE}]}
            (topic,) = wire.ask(ApiKey.METADATA, 12, wish)["topics"]
        body = _with_id(case.body, topic["topic_id"])
        with self.carol.connect() as wire:
            _log_in(wire, "carol")
            return plain(wire.ask(case.api, case.version, body))


def _log_in(wire: Any, user: str) -> None:
    wire.ask(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    message = f"\0{user}\0{USERS[user]}".encode()
    assert wire.ask(AUTHENTICATE, 2, {"auth_bytes": message})["error_code"] == ErrorCode.NONE


def _with_id(value: Any, topic_id: uuid.UUID) -> Any:
    if isinstance(value, Mapping):
        return {name: _with_id(it, topic_id) for name, it in value.items()}
    if isinstance(value, list):
        return [_with_id(it, topic_id) for it in value]
    return topic_id if value == THERE_ID else value


@pytest.fixture(scope="module")
def denied_sides(kafka_secured: SecuredKafka) -> Generator[tuple[Denied, Denied]]:
    """Both brokers.

    Yields:
        Them, ready.
    """
    security = BrokerSecurity(
        protocol="SASL_PLAINTEXT", users=USERS, acls=(), super_users=("alice",)
    )
    with EmbeddedCluster([1], {TOPIC: 1}, security=security) as cluster:
        embedded = Side("embedded", cluster.bootstrap_servers)
        kafka = Denied(
            Side("kafka", kafka_secured.bootstrap_servers),
            Side("kafka", kafka_secured.secured_address("SASL_PLAINTEXT")),
        )
        yield Denied(embedded, embedded), kafka


@pytest.mark.parametrize("case", CASES, ids=lambda it: f"{it.api.name}-{it.version}")
def test_a_user_without_rights(denied_sides: tuple[Denied, Denied], case: Case) -> None:
    """Field by field the same; the code is the one of its resource."""
    embedded, kafka = (side.answer(case) for side in denied_sides)
    assert embedded == kafka, f"embedded: {embedded!r}; kafka: {kafka!r}"


def test_every_api_that_needs_a_right_is_asked() -> None:
    """An API that is served is among the cases above, or needs no right."""
    asked = {case.api for case in CASES}
    missing = {handler.api_key for handler in HANDLERS} - asked - OPEN - OTHERS
    assert not missing, sorted(it.name for it in missing)


OTHERS = {
    ApiKey.DELETE_GROUPS,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.HEARTBEAT,
    ApiKey.JOIN_GROUP,
    ApiKey.LEAVE_GROUP,
    ApiKey.LIST_GROUPS,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_DELETE,
    ApiKey.OFFSET_FETCH,
    ApiKey.SYNC_GROUP,
}
"""Their handlers ask for rights; nobody has compared the rejections with Apache Kafka's yet."""
