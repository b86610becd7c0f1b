"""Rules by themselves, at raw requests, and what a producer is told without a right."""

from typing import Any

import pytest

from kprod import Producer
from kprod.broker import Acl, BrokerSecurity, EmbeddedCluster
from kprod.broker.security.acls import Authorizer
from kprod.errors import ConfigError, KprodError
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import World, batch

USERS = {"alice": "alice-secret", "bob": "bob-secret"}


def allows(acls: list[Acl], operation: str, name: str, user: str = "bob") -> bool:
    """Ask about a topic."""
    return Authorizer(acls, ("root",)).allows(user, operation, "topic", name)


@pytest.mark.parametrize(
    ("acl", "operation", "name", "expected"),
    [
        (Acl("bob", "WRITE", name="t1"), "WRITE", "t1", True),
        (Acl("bob", "WRITE", name="t1"), "WRITE", "t2", False),
        (Acl("bob", "WRITE", name="t1"), "READ", "t1", False),
        (Acl("bob", "WRITE", name="t1"), "DESCRIBE", "t1", True),
        (Acl("bob", "READ", name="t1"), "DESCRIBE", "t1", True),
        (Acl("bob", "CREATE", name="t1"), "DESCRIBE", "t1", False),
        (Acl("bob", "ALTER_CONFIGS", name="t1"), "DESCRIBE_CONFIGS", "t1", True),
        (Acl("bob", "DESCRIBE", name="t1"), "WRITE", "t1", False),
        (Acl("bob", "ALL", name="t1"), "DELETE", "t1", True),
        (Acl("bob", "WRITE"), "WRITE", "anything", True),
        (Acl("*", "WRITE", name="t1"), "WRITE", "t1", True),
        (Acl("alice", "WRITE", name="t1"), "WRITE", "t1", False),
        (Acl("bob", "WRITE", name="team-", pattern="prefixed"), "WRITE", "team-a", True),
        (Acl("bob", "WRITE", name="team-", pattern="prefixed"), "WRITE", "other", False),
        (Acl("bob", "WRITE", name="team-"), "WRITE", "team-a", False),
        (Acl("bob", "WRITE", resource="group", name="t1"), "WRITE", "t1", False),
    ],
)
def test_one_rule(acl: Acl, operation: str, name: str, expected: bool) -> None:
    """The operations that an operation allows, implies, and does not allow."""
    assert allows([acl], operation, name) is expected


def test_a_denial_wins() -> None:
    """Over any allowance, by all of its patterns; a super user is never denied."""
    rules = [
        Acl("*", "ALL"),
        Acl("bob", "WRITE", name="secret-", pattern="prefixed", permission="deny"),
    ]
    assert allows(rules, "WRITE", "open")
    assert not allows(rules, "WRITE", "secret-1")
    assert allows(rules, "DESCRIBE", "secret-1")
    assert allows(rules, "WRITE", "secret-1", user="alice")
    assert allows([], "WRITE", "secret-1", user="root")
    assert not allows([], "WRITE", "open")


@pytest.mark.parametrize(
    "wrong",
    [{"operation": "write"}, {"resource": "Topic"}, {"pattern": "any"}, {"permission": "no"}],
)
def test_a_wrong_rule_is_rejected(wrong: dict[str, str]) -> None:
    """The text has the names that there are."""
    with pytest.raises(ConfigError, match="is not one of"):
        Acl(**{"user": "bob", "operation": "WRITE", **wrong})


def open_world(*acls: Acl) -> World:
    """A cluster without logins, whose clients are all ANONYMOUS."""
    return World(brokers=1, topics={"orders": 1, "hidden": 1}, security=BrokerSecurity(acls=acls))


def test_a_topic_that_may_not_be_described_is_hidden() -> None:
    """Left out of all topics; asked for by name it is the same as one that is not there."""
    client = open_world(Acl("*", "DESCRIBE", name="orders")).client()
    listed = client.ask(ApiKey.METADATA, 9, {"topics": None})["topics"]
    assert [topic["name"] for topic in listed] == ["orders"]
    wish = {"topics": [{"name": name} for name in ("orders", "hidden", "nowhere")]}
    codes = [it["error_code"] for it in client.ask(ApiKey.METADATA, 9, wish)["topics"]]
    assert codes == [ErrorCode.NONE, *[ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2]


@pytest.mark.parametrize("resource", ["cluster", "topic"])
def test_a_user_that_may_create_has_topics_made(resource: str) -> None:
    """By asking for them; others are rejected, and nothing is made."""
    wish = {"topics": [{"name": "fresh"}], "allow_auto_topic_creation": True}
    world = open_world(Acl("*", "DESCRIBE"))
    (answer,) = world.client().ask(ApiKey.METADATA, 9, wish)["topics"]
    assert answer["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    world = open_world(Acl("*", "DESCRIBE"), Acl("*", "CREATE", resource=resource))
    client = world.client()
    client.ask(ApiKey.METADATA, 9, wish)
    (answer,) = client.ask(ApiKey.METADATA, 9, wish)["topics"]
    assert answer["error_code"] == ErrorCode.NONE


def test_a_denied_partition_leaves_the_others() -> None:
    """A request for two topics of which one may be written."""
    client = open_world(Acl("*", "WRITE", name="orders")).client()
    topics = [
        {"name": name, "partition_data": [{"index": 0, "records": batch()}]}
        for name in ("orders", "hidden")
    ]
    body = {"acks": 1, "timeout_ms": 1_000, "topic_data": topics}
    answers = client.ask(ApiKey.PRODUCE, 9, body)["responses"]
    codes = [topic["partition_responses"][0]["error_code"] for topic in answers]
    assert codes == [ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED]


def test_a_fetch_that_waits_is_judged_when_it_begins() -> None:
    """A denied one is answered at once."""
    client = open_world(Acl("*", "WRITE", name="orders")).client()
    correlation_id = client.fetch(0, max_wait_ms=1_000)
    (topic,) = client.answers()[correlation_id]["responses"]
    assert topic["partitions"][0]["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def served(*acls: Acl) -> EmbeddedCluster:
    """One broker with logins."""
    security = BrokerSecurity(
        protocol="SASL_PLAINTEXT", users=USERS, acls=acls, super_users=("alice",)
    )
    return EmbeddedCluster(1, {"orders": 1}, security=security)


def failure(cluster: EmbeddedCluster, **settings: Any) -> KprodError:
    """The error of a record of bob's."""
    wanted = cluster.client_settings(user="bob") | settings
    with Producer(wanted, max_block_ms=3_000) as producer, pytest.raises(KprodError) as caught:
        producer.send("orders", b"one").result(30)
    return caught.value


def test_a_producer_without_a_right_is_told() -> None:
    """At once, by Kafka's error, of the topic or of the id; a super user needs none."""
    with served() as cluster:
        assert "TOPIC_AUTHORIZATION_FAILED" in repr(failure(cluster, enable_idempotence=False))
        assert "AUTHORIZATION_FAILED" in repr(failure(cluster))
        with Producer(cluster.client_settings(user="alice")) as producer:
            assert producer.send("orders", b"one").result(30).offset == 0


def test_a_producer_that_may_describe_only() -> None:
    """It is told by the broker's answer to the records, or to the wish for an id."""
    with served(Acl("bob", "DESCRIBE", name="orders")) as cluster:
        assert "AUTHORIZATION_FAILED" in repr(failure(cluster, enable_idempotence=False))
        assert "AUTHORIZATION_FAILED" in repr(failure(cluster))


def test_a_producer_with_the_right_to_write_needs_no_other() -> None:
    """Nor one on the cluster for idempotence."""
    with (
        served(Acl("bob", "WRITE", name="ord", pattern="prefixed")) as cluster,
        Producer(cluster.client_settings(user="bob")) as producer,
    ):
        assert producer.send("orders", b"one").result(30).offset == 0
