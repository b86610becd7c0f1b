"""Groups of an embedded cluster: coordinators that move, and peers that tell odd things."""

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from kprod import Producer
from kprod.admin.group_admin import GroupAdmin
from kprod.admin.offset_plan import ResetTarget, TargetKind, plan_offsets
from kprod.admin.partition_offsets import find_offsets
from kprod.broker import Acl, BrokerSecurity, EmbeddedCluster
from kprod.config import ProducerConfig
from kprod.consumer.offset_lookup import LATEST_TIMESTAMP
from kprod.errors import (
    BrokerError,
    Disconnected,
    KprodError,
    KprodTimeout,
    UnknownPartition,
    UnknownTopic,
)
from kprod.model import TopicPartition
from kprod.network.admin_client import AdminClient
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.admin.group_makers import changed, commit, connect, join, leave

ORDERS = [TopicPartition("orders", number) for number in range(2)]


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """Two brokers and a topic with one record in its second partition."""
    with EmbeddedCluster(2, {"orders": 2}) as opened:
        with Producer(bootstrap_servers=opened.bootstrap_servers) as producer:
            producer.send("orders", b"x", partition=1, timestamp_ms=1_000).result(30)
        yield opened


@pytest.fixture
def lone() -> Iterator[EmbeddedCluster]:
    """One broker, which coordinates every group."""
    with EmbeddedCluster(1, {"orders": 2}) as opened:
        yield opened


@pytest.fixture
def groups_there(lone: EmbeddedCluster) -> Iterator[GroupAdmin]:
    """The groups of the one broker."""
    with connect(lone.bootstrap_servers) as opened:
        yield GroupAdmin(opened)


@pytest.fixture
def admin(cluster: EmbeddedCluster) -> Iterator[AdminClient]:
    """A client of the cluster."""
    with connect(cluster.bootstrap_servers) as opened:
        yield opened


@pytest.fixture
def groups(admin: AdminClient) -> GroupAdmin:
    """The cluster's groups."""
    return GroupAdmin(admin)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
def test_an_absent_coordinator_is_asked_again(
    cluster: EmbeddedCluster, groups: GroupAdmin, code: ErrorCode
) -> None:
    """By each request, whatever place its error code has."""
    for api in (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_GROUPS):
        cluster.faults.fail_next(api, code, times=2)
    cluster.faults.fail_next(ApiKey.OFFSET_DELETE, code)
    cluster.faults.fail_next(ApiKey.DELETE_GROUPS, code)
    cluster.faults.fail_next(ApiKey.FIND_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert groups.commit("billing", dict.fromkeys(ORDERS, 1)) == {}
    assert [it.offset for it in groups.committed("billing").values()] == [1, 1]
    assert groups.describe("billing").state == "Empty"
    assert groups.delete_offsets("billing", ORDERS[:1]) == {}
    groups.delete("billing")
    assert cluster.faults.pending() == ()
    assert groups.list_groups().groups == []


def test_a_coordinator_that_moved_is_found(cluster: EmbeddedCluster, groups: GroupAdmin) -> None:
    """The old one says NOT_COORDINATOR."""
    groups.commit("billing", {ORDERS[0]: 7})
    before = groups.describe("billing").coordinator.node_id
    cluster.move_coordinator("billing", to=1 - before)
    assert groups.describe("billing").coordinator.node_id == 1 - before
    assert groups.committed("billing")[ORDERS[0]].offset == 7


def test_a_coordinator_that_is_down_is_gone_around(
    cluster: EmbeddedCluster, groups: GroupAdmin
) -> None:
    """Its successor answers."""
    groups.commit("billing", {ORDERS[0]: 7})
    before = groups.describe("billing").coordinator.node_id
    cluster.stop_broker(before)
    assert groups.committed("billing")[ORDERS[0]].offset == 7


def test_a_coordinator_that_stays_away_is_told_at_the_timeout(cluster: EmbeddedCluster) -> None:
    """With the broker's own code."""
    cluster.faults.fail_next(
        ApiKey.FIND_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, times=1_000
    )
    with (
        connect(cluster.bootstrap_servers, timeout_ms=300) as admin,
        pytest.raises(BrokerError, match=r"COORDINATOR_NOT_AVAILABLE .* group 'billing'"),
    ):
        GroupAdmin(admin).committed("billing")


def test_a_lost_response_is_asked_for_again_unless_it_deletes_a_group(
    cluster: EmbeddedCluster, groups: GroupAdmin
) -> None:
    """A second deletion would say that there is no such group."""
    cluster.faults.disconnect(ApiKey.OFFSET_COMMIT, handled=True)
    assert groups.commit("billing", {ORDERS[0]: 1}) == {}
    cluster.faults.disconnect(ApiKey.DELETE_GROUPS, handled=True)
    with pytest.raises(Disconnected):
        groups.delete("billing")
    assert groups.list_groups().groups == []


def test_a_broker_that_does_not_list_is_told(cluster: EmbeddedCluster, groups: GroupAdmin) -> None:
    """The groups of the others are listed."""
    names = [f"group-{number}" for number in range(8)]
    for name in names:
        groups.commit(name, {ORDERS[0]: 1})
    cluster.faults.fail_next(ApiKey.LIST_GROUPS, ErrorCode.UNKNOWN_SERVER_ERROR, broker=1)
    found = groups.list_groups()
    assert {it.coordinator_id for it in found.groups} == {0}
    assert "UNKNOWN_SERVER_ERROR" in str(found.errors[1])
    assert [it.group_id for it in groups.list_groups(states=["Empty"]).groups] == names
    assert groups.list_groups(types=["consumer"]).groups == []


def test_members_are_described(lone: EmbeddedCluster, groups_there: GroupAdmin) -> None:
    """Topics and assignment; a deletion says that there are members."""
    crew = join(lone.bootstrap_servers, "orders")
    found = groups_there.describe(crew.group_id)
    assert (found.state, found.assignor, found.may_have_members) == ("Stable", "range", True)
    assert found.members is not None
    (member,) = found.members
    assert (member.topics, member.assignment) == (("orders",), tuple(ORDERS))
    with pytest.raises(BrokerError, match=r"NON_EMPTY_GROUP.*has members: stop"):
        groups_there.delete(crew.group_id)
    errors = groups_there.commit(crew.group_id, {ORDERS[0]: 1})
    assert errors[ORDERS[0]].code == ErrorCode.UNKNOWN_MEMBER_ID
    errors = groups_there.delete_offsets(crew.group_id, ORDERS)
    assert {it.code for it in errors.values()} == {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    leave(crew)
    groups_there.delete(crew.group_id)
    crew.close()


@pytest.mark.parametrize(
    ("metadata", "assignment"),
    [
        (b"\xff", b"\xff"),
        (b"\xff\xff", b"\xff\xff"),
        (struct.pack(">hih", 0, 1, 2) + b"\xff\xfe", struct.pack(">hih", 0, 1, 2) + b"\xff\xfe"),
        (struct.pack(">hi", 0, 2**31 - 1), struct.pack(">hi", 0, 2**31 - 1)),
        (struct.pack(">h", 2**15 - 1), struct.pack(">h", 2**15 - 1)),
        (b"{}", struct.pack(">hih6sii", 0, 1, 6, b"orders", 1, -3)),
    ],
)
def test_bytes_that_are_no_subscription_are_told_by_their_size(
    lone: EmbeddedCluster, groups_there: GroupAdmin, metadata: bytes, assignment: bytes
) -> None:
    """A member may send anything: not UTF-8, counts that lie, versions of the future."""
    crew = join(lone.bootstrap_servers, "orders", metadata=metadata, assignment=assignment)
    found = groups_there.describe(crew.group_id).members
    assert found is not None
    (member,) = found
    assert (member.topics, member.assignment) == (None, None)
    assert (member.metadata_bytes, member.assignment_bytes) == (len(metadata), len(assignment))
    crew.close()


def test_bytes_of_another_protocol_are_not_read(
    lone: EmbeddedCluster, groups_there: GroupAdmin
) -> None:
    """As of Kafka Connect's workers, even if they would be a subscription."""
    crew = join(lone.bootstrap_servers, "orders", protocol_type="connect")
    found = groups_there.describe(crew.group_id)
    assert found.protocol_type == "connect"
    assert found.members is not None
    assert (found.members[0].topics, found.members[0].assignment) == (None, None)
    crew.close()


@pytest.mark.parametrize("name", ["", " ", "a b", "x\n\x1b[31m", "größe-\N{SNOWMAN}", "n" * 5_000])
def test_a_group_may_have_any_name(groups: GroupAdmin, name: str) -> None:
    """Kafka accepts all of them for commits."""
    groups.commit(name, {ORDERS[0]: 3})
    assert [it.group_id for it in groups.list_groups().groups] == [name]
    assert groups.describe(name).group_id == name
    assert groups.committed(name)[ORDERS[0]].offset == 3
    groups.delete(name)


def test_a_group_that_is_not_there(groups: GroupAdmin) -> None:
    """It has no offsets; everything else is an error."""
    assert groups.committed("nope") == {}
    for call in (groups.describe, groups.delete):
        with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
            call("nope")
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        groups.delete_offsets("nope", ORDERS)


def test_offsets_are_told_for_each_partition(cluster: EmbeddedCluster, admin: AdminClient) -> None:
    """Topics and partitions that are not there, or have no leader, have an error of their own."""
    cluster.create_topic("lonely", 1, replication_factor=1)
    cluster.stop_broker(cluster.describe("lonely", 0).leader_id)
    unknown = [TopicPartition("nope", 0), TopicPartition("orders", 9), TopicPartition("lonely", 0)]
    wanted = dict.fromkeys([*ORDERS, *unknown], LATEST_TIMESTAMP)
    found = find_offsets(admin, wanted)
    assert list(found) == list(wanted)
    known = [found[key] for key in ORDERS]
    assert [it.offset for it in known if not isinstance(it, KprodError)] == [0, 1]
    assert isinstance(found[unknown[0]], UnknownTopic)
    assert isinstance(found[unknown[1]], UnknownPartition)
    lonely = found[unknown[2]]
    assert isinstance(lonely, BrokerError)
    assert lonely.code == ErrorCode.LEADER_NOT_AVAILABLE


def test_a_leader_that_moved_is_asked_again(cluster: EmbeddedCluster, admin: AdminClient) -> None:
    """NOT_LEADER_OR_FOLLOWER asks for newer metadata; other errors are told."""
    cluster.faults.fail_next(ApiKey.LIST_OFFSETS, ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
    wanted = dict.fromkeys(ORDERS, LATEST_TIMESTAMP)
    assert not [it for it in find_offsets(admin, wanted).values() if isinstance(it, KprodError)]
    cluster.faults.fail_next(ApiKey.LIST_OFFSETS, ErrorCode.UNKNOWN_SERVER_ERROR, times=2)
    for answer in find_offsets(admin, wanted).values():
        assert "UNKNOWN_SERVER_ERROR" in str(answer)


def test_a_leader_that_does_not_answer_is_told(cluster: EmbeddedCluster) -> None:
    """For its partitions."""
    cluster.faults.drop(ApiKey.LIST_OFFSETS, times=100)
    with connect(cluster.bootstrap_servers, timeout_ms=300) as admin:
        for answer in find_offsets(admin, dict.fromkeys(ORDERS, LATEST_TIMESTAMP)).values():
            assert isinstance(answer, KprodTimeout)


def test_impossible_offsets_are_rejected(cluster: EmbeddedCluster, admin: AdminClient) -> None:
    """An offset below 0 would be committed otherwise."""

    def lie(body: dict[str, Any]) -> None:
        for topic in body["topics"]:
            for partition in topic["partitions"]:
                partition["offset"] = -5

    cluster.faults.rewrite(ApiKey.LIST_OFFSETS, changed(ApiKey.LIST_OFFSETS, 7, lie), times=2)
    for answer in find_offsets(admin, dict.fromkeys(ORDERS, LATEST_TIMESTAMP)).values():
        assert "the offset -5" in str(answer)


@pytest.mark.parametrize(
    ("target", "offsets"),
    [
        (ResetTarget(TargetKind.EARLIEST), [0, 0]),
        (ResetTarget(TargetKind.LATEST), [0, 1]),
        (ResetTarget(TargetKind.CURRENT), [0, 1]),
        (ResetTarget(TargetKind.OFFSET, 1), [0, 1]),
        (ResetTarget(TargetKind.TIME, 1_000), [0, 0]),
        (ResetTarget(TargetKind.TIME, 1_001), [0, 1]),
        (ResetTarget(TargetKind.GIVEN, offsets=dict.fromkeys(ORDERS, 2**63 - 1)), [0, 1]),
    ],
)
def test_a_plan_stays_in_the_log(
    admin: AdminClient, groups: GroupAdmin, target: ResetTarget, offsets: list[int]
) -> None:
    """The first partition is empty; the second has a record of one second after 1970."""
    groups.commit("billing", {ORDERS[1]: 1})
    plan = plan_offsets(admin, ORDERS, groups.committed("billing"), target)
    assert [it.offset for it in plan] == offsets
    assert [it.committed for it in plan] == [None, 1]


def test_only_a_committed_offset_can_be_shifted(admin: AdminClient, groups: GroupAdmin) -> None:
    """The partition without one is named."""
    groups.commit("billing", {ORDERS[1]: 1})
    committed = groups.committed("billing")
    back = ResetTarget(TargetKind.SHIFT, -1)
    (planned,) = plan_offsets(admin, ORDERS[1:], committed, back)
    assert (planned.committed, planned.offset) == (1, 0)
    with pytest.raises(KprodError, match="'orders', partition 0, has no committed offset"):
        plan_offsets(admin, ORDERS, committed, back)


@pytest.fixture
def groups_of_carol() -> Iterator[GroupAdmin]:
    """The groups of a secured broker; carol may describe one and read another."""
    acls = (Acl("carol", "DESCRIBE", "group", "seen"), Acl("carol", "READ", "group", "read"))
    security = BrokerSecurity(protocol="SASL_PLAINTEXT", users={"carol": "c"}, acls=acls)
    settings = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "carol",
        "sasl_plain_password": "c",
    }
    with EmbeddedCluster(1, {"orders": 2}, security=security) as cluster:
        config = ProducerConfig.parse({**settings, "bootstrap_servers": cluster.bootstrap_servers})
        with AdminClient(config) as admin:
            yield GroupAdmin(admin)


def test_a_missing_right_is_named(groups_of_carol: GroupAdmin) -> None:
    """User, operation and resource, by each request."""
    groups = groups_of_carol
    for call in (groups.committed, groups.describe, groups.delete):
        with pytest.raises(BrokerError, match=r"carol .PLAIN. lacks DESCRIBE on group 'no'"):
            call("no")
    with pytest.raises(BrokerError, match="lacks DELETE on group 'seen'"):
        groups.delete("seen")
    errors = groups.commit("seen", {ORDERS[0]: 1})
    assert "lacks READ on group 'seen'" in str(errors[ORDERS[0]])
    errors = groups.commit("read", {ORDERS[0]: 1})
    assert "lacks READ on topic 'orders'" in str(errors[ORDERS[0]])
    (answer,) = find_offsets(groups._admin, {ORDERS[0]: LATEST_TIMESTAMP}).values()
    assert "carol (PLAIN) lacks DESCRIBE on topic 'orders'" in str(answer)


def test_a_response_about_another_number_of_groups_is_rejected(
    lone: EmbeddedCluster, groups_there: GroupAdmin
) -> None:
    """One group was asked about."""
    commit(lone.bootstrap_servers, "billing", {("orders", 0): 1})
    clear = changed(ApiKey.DESCRIBE_GROUPS, 6, lambda body: body["groups"].clear())
    lone.faults.rewrite(ApiKey.DESCRIBE_GROUPS, clear)
    with pytest.raises(KprodError, match="0 entries"):
        groups_there.describe("billing")


def test_a_group_of_another_type_has_no_members_here(
    lone: EmbeddedCluster, groups_there: GroupAdmin
) -> None:
    """DescribeGroups does not know it; its listing does (KIP-848, KIP-1043)."""
    groups_there.commit("modern", {ORDERS[0]: 1})

    def list_as_modern(body: dict[str, Any]) -> None:
        body["groups"][0] |= {"group_type": "Consumer", "group_state": "Stable"}

    lone.faults.fail_next(ApiKey.DESCRIBE_GROUPS, ErrorCode.GROUP_ID_NOT_FOUND)
    lone.faults.rewrite(ApiKey.LIST_GROUPS, changed(ApiKey.LIST_GROUPS, 5, list_as_modern))
    found = groups_there.describe("modern")
    assert (found.group_type, found.state, found.members) == ("consumer", "Stable", None)
    assert found.may_have_members
