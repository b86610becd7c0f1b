"""The errors of a producer and a consumer without a right, at both brokers.

Source: KIP-11; KIP-679 for idempotent writes without a right on the cluster.
"""

import threading
from collections.abc import Generator
from typing import Any

import pytest

from kprod import Consumer, Producer
from kprod.admin.group_admin import GroupAdmin
from kprod.broker import Acl, BrokerSecurity, EmbeddedCluster
from kprod.config.consumer_config import ConsumerConfig
from kprod.errors import KprodError
from kprod.network.admin_client import AdminClient, Question
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.conformance.sides import Side
from tests.plugins.kafka_secured import TOPIC, USERS, SecuredKafka

DESCRIBED = "described"
_TOPIC, _LITERAL, _DESCRIBE, _ALLOW = 2, 3, 8, 3
SIDES = ("embedded", "kafka")


@pytest.fixture(scope="module")
def addresses(kafka_secured: SecuredKafka) -> Generator[dict[str, str]]:
    """Both brokers; carol may describe one topic, and nothing else.

    Yields:
        Their addresses.
    """
    described = Acl("carol", "DESCRIBE", name=DESCRIBED)
    security = BrokerSecurity(
        protocol="SASL_PLAINTEXT", users=USERS, acls=(described,), super_users=("alice",)
    )
    kafka_secured.create_topic(DESCRIBED)
    rule = {
        "resource_type": _TOPIC,
        "resource_name": DESCRIBED,
        "resource_pattern_type": _LITERAL,
        "principal": "User:carol",
        "host": "*",
        "operation": _DESCRIBE,
        "permission_type": _ALLOW,
    }
    admin = Side("kafka", kafka_secured.bootstrap_servers)
    (made,) = admin.ask(ApiKey.CREATE_ACLS, 2, {"creations": [rule]})["results"]
    assert made["error_code"] == 0, made
    with EmbeddedCluster(1, {TOPIC: 1, DESCRIBED: 1}, security=security) as cluster:
        yield {
            "embedded": cluster.bootstrap_servers,
            "kafka": kafka_secured.secured_address("SASL_PLAINTEXT"),
        }
    # Other tests expect that carol has no rights at the node.
    wanted = {
        "resource_type_filter": _TOPIC,
        "resource_name_filter": DESCRIBED,
        "pattern_type_filter": _LITERAL,
        "principal_filter": "User:carol",
        "host_filter": "*",
        "operation": _DESCRIBE,
        "permission_type": _ALLOW,
    }
    (ended,) = admin.ask(ApiKey.DELETE_ACLS, 2, {"filters": [wanted]})["filter_results"]
    assert len(ended["matching_acls"]) == 1, ended
    while admin.ask(ApiKey.DESCRIBE_ACLS, 2, wanted)["resources"]:
        threading.Event().wait(0.05)  # the node's own image of the rules is behind


def settings_of(address: str) -> dict[str, Any]:
    """Settings of carol's clients."""
    return {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "carol",
        "sasl_plain_password": USERS["carol"],
    }


def failure(address: str, topic: str, **settings: Any) -> KprodError:
    """The error of a record of carol's; a broker may learn of its ACLs late."""
    with (
        Producer(settings_of(address), max_block_ms=30_000, **settings) as producer,
        pytest.raises(KprodError) as caught,
    ):
        producer.send(topic, b"one").result(60)
    return caught.value


@pytest.mark.parametrize("side", SIDES)
def test_a_topic_that_may_not_be_described(addresses: dict[str, str], side: str) -> None:
    """The user, the mechanism, the operation and the topic are named."""
    error = failure(addresses[side], TOPIC)
    assert "TOPIC_AUTHORIZATION_FAILED (code 29)" in str(error)
    assert f"carol (PLAIN) lacks DESCRIBE on topic '{TOPIC}'; grant it" in str(error)


@pytest.mark.parametrize("side", SIDES)
def test_a_topic_that_may_not_be_written(addresses: dict[str, str], side: str) -> None:
    """By the response to the records."""
    error = failure(addresses[side], DESCRIBED, enable_idempotence=False)
    assert "TOPIC_AUTHORIZATION_FAILED (code 29)" in str(error)
    assert f"carol (PLAIN) lacks WRITE on topic '{DESCRIBED}'; grant it" in str(error)


@pytest.mark.parametrize("side", SIDES)
def test_a_producer_that_may_write_nowhere(addresses: dict[str, str], side: str) -> None:
    """The id for idempotent writes is denied; any WRITE would include it."""
    error = failure(addresses[side], DESCRIBED)
    assert "CLUSTER_AUTHORIZATION_FAILED (code 31)" in str(error)
    assert "carol (PLAIN) lacks IDEMPOTENT_WRITE on the cluster; grant it" in str(error)


@pytest.mark.parametrize("side", SIDES)
def test_a_topic_that_may_not_be_read(addresses: dict[str, str], side: str) -> None:
    """A consumer is told by the response to its fetch."""
    settings = settings_of(addresses[side]) | {"auto_offset_reset": "earliest"}
    with Consumer(**settings) as consumer:
        consumer.assign([(DESCRIBED, 0)])
        with pytest.raises(KprodError) as caught:
            consumer.poll(60)
    assert f"carol (PLAIN) lacks READ on topic '{DESCRIBED}'; grant it" in str(caught.value)


@pytest.mark.parametrize("side", SIDES)
def test_a_group_that_may_not_be_described(addresses: dict[str, str], side: str) -> None:
    """The administration of groups names the right, too."""
    with AdminClient(ConsumerConfig.parse(settings_of(addresses[side]))) as admin:
        groups = GroupAdmin(admin)
        for call in (groups.describe, groups.committed, groups.delete):
            with pytest.raises(KprodError) as caught:
                call("billing")
            assert "GROUP_AUTHORIZATION_FAILED (code 30)" in str(caught.value)
            assert "carol (PLAIN) lacks DESCRIBE on group 'billing'; grant it" in str(caught.value)
        assert groups.list_groups().groups == []


@pytest.mark.parametrize("side", SIDES)
def test_the_group_s_right_comes_before_the_topics(addresses: dict[str, str], side: str) -> None:
    """A commit is denied for the group, whatever its topics are."""
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    body = {
        "group_id": "billing",
        "topics": [{"name": name, "partitions": [partition]} for name in (DESCRIBED, "nowhere")],
    }
    with AdminClient(ConsumerConfig.parse(settings_of(addresses[side]))) as admin:
        answer = admin.ask(Question(ApiKey.OFFSET_COMMIT, body, (2, 9)))
    codes = [it["error_code"] for topic in answer["topics"] for it in topic["partitions"]]
    assert codes == [ErrorCode.GROUP_AUTHORIZATION_FAILED] * 2
