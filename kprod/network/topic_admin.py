"""Topics of a cluster: list, describe, create, enlarge, alter, delete.

Each function asks once, through an `AdminClient` of the caller's, and says what was refused with
the topic's name and the cluster's words.

Thread-safety: one thread, the client's.
Source: MetadataRequest, CreateTopicsRequest, CreatePartitionsRequest, DeleteTopicsRequest,
DescribeConfigsRequest, IncrementalAlterConfigsRequest (Kafka 4.3.1); KIP-339, KIP-464.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kprod.config import ClientConfig
from kprod.config.address import bootstrap_addresses
from kprod.errors import UnknownTopic
from kprod.network.admin_client import TIMEOUT_MS, AdminClient, Question
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode, error_for

OWN_SETTING = 1
"""`TopicSettingView.source` of a setting of the topic itself."""
_SOURCES = {1: "topic", 2: "broker", 3: "cluster", 4: "broker file", 5: "default"}
_TOPIC_RESOURCE = 2
_SET, _DELETE = 0, 1
# The first in which −1 stands for the broker's own replication factor; the last without fields that
# nothing here needs.
_CREATE_VERSIONS = (4, 7)
_PARTITIONS_VERSIONS = (0, 3)
_DELETE_VERSIONS = (1, 5)  # from 6 on, topics may go by id
_DESCRIBE_VERSIONS = (1, 4)
_ALTER_VERSIONS = (0, 1)
_METADATA_VERSIONS = (4, 12)


class PartitionState(NamedTuple):
    """One partition as the controller knows it.

    Attributes:
        partition: Partition number, from 0.
        leader_id: −1 without a leader.
        leader_epoch: −1 where the broker is too old to say.
        replicas: Node ids, the preferred leader first.
        in_sync_replicas: Node ids.
        offline_replicas: Node ids.
    """

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: Sequence[int]
    in_sync_replicas: Sequence[int]
    offline_replicas: Sequence[int]


class TopicState(NamedTuple):
    """A topic as the controller knows it.

    Attributes:
        name: Its name.
        topic_id: As text; None where the broker is too old to say.
        is_internal: Kafka's own.
        partitions: In order.
    """

    name: str
    topic_id: str | None
    is_internal: bool
    partitions: Sequence[PartitionState]


class TopicSettingView(NamedTuple):
    """One setting of a topic.

    Attributes:
        name: Kafka's dotted name.
        value: As text; None where the cluster keeps it secret.
        source: Where the value comes from: `OWN_SETTING` for the topic itself.
        source_name: The same in words.
    """

    name: str
    value: str | None
    source: int
    source_name: str


def list_topics(admin: AdminClient) -> list[TopicState]:
    """Return all topics that this client may know of.

    Args:
        admin: Of the cluster.

    Returns:
        Sorted by name.

    Raises:
        KprodError: The cluster cannot be asked.
    """
    return sorted(_states(admin, None), key=lambda state: state.name)


def describe_topics(admin: AdminClient, names: Sequence[str]) -> list[TopicState]:
    """Return what the cluster knows of some topics; none is made by asking.

    Args:
        admin: Of the cluster.
        names: At least one.

    Returns:
        In the order of `names`.

    Raises:
        UnknownTopic: One does not exist.
        KprodError: The cluster refuses or cannot be asked.
    """
    by_name = {state.name: state for state in _states(admin, names)}
    return [by_name[name] for name in names]


def describe_settings(admin: AdminClient, topic: str) -> list[TopicSettingView]:
    """Return a topic's settings, the cluster's and Kafka's defaults among them.

    Args:
        admin: Of the cluster.
        topic: Name of an existing topic.

    Returns:
        Sorted by name.

    Raises:
        KprodError: The cluster refuses or cannot be asked.
    """
    resource = {"resource_type": _TOPIC_RESOURCE, "resource_name": topic}
    body = {"resources": [{**resource, "configuration_keys": None}]}
    answer = admin.ask(
        Question(ApiKey.DESCRIBE_CONFIGS, body, _DESCRIBE_VERSIONS, is_repeatable=True)
    )
    _raise_refused(answer["results"], "resource_name")
    return sorted(
        TopicSettingView(
            entry["name"],
            entry["value"],
            entry["config_source"],
            _SOURCES.get(entry["config_source"], f"source {entry['config_source']}"),
        )
        for result in answer["results"]
        for entry in result["configs"]
    )


def make_topic(
    admin: AdminClient,
    topic: str,
    partition_count: int = -1,
    *,
    replication_factor: int = -1,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Make a topic.

    Args:
        admin: Of the cluster.
        topic: A name that is not taken.
        partition_count: At least 1; −1 takes the cluster's own.
        replication_factor: At least 1; −1 takes the cluster's own.
        settings: The topic's own, such as `cleanup.policy`; others are the cluster's.

    Raises:
        KprodError: The cluster refuses, the text says why; or it cannot be asked.
    """
    wish = {
        "name": topic,
        "num_partitions": partition_count,
        "replication_factor": replication_factor,
        "configs": [{"name": name, "value": value} for name, value in (settings or {}).items()],
    }
    body = {"topics": [wish], "timeout_ms": TIMEOUT_MS}
    answer = admin.ask(Question(ApiKey.CREATE_TOPICS, body, _CREATE_VERSIONS))
    _raise_refused(answer["topics"])


def create_topic(
    cluster: str | Sequence[str] | ClientConfig,
    topic: str,
    partition_count: int,
    *,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Connect, make a topic with the cluster's own replication factor, and disconnect.

    Args:
        cluster: `host:port,host:port`, or how to connect.
        topic: A name that is not taken.
        partition_count: At least 1.
        settings: As for `make_topic`.

    Raises:
        ConfigError: The addresses are malformed.
        KprodError: The cluster refuses or cannot be asked.
    """
    config = (
        cluster
        if isinstance(cluster, ClientConfig)
        else ClientConfig(bootstrap_servers=bootstrap_addresses(cluster), client_id="kprod")
    )
    with AdminClient(config) as admin:
        make_topic(admin, topic, partition_count, settings=settings)


def add_partitions(admin: AdminClient, topic: str, partition_count: int) -> None:
    """Let a topic have more partitions; keys then go to others than before.

    Args:
        admin: Of the cluster.
        topic: Name of an existing topic.
        partition_count: In all; more than there are.

    Raises:
        KprodError: The cluster refuses, the text says why; or it cannot be asked.
    """
    wish = {"name": topic, "count": partition_count, "assignments": None}
    body = {"topics": [wish], "timeout_ms": TIMEOUT_MS, "validate_only": False}
    answer = admin.ask(Question(ApiKey.CREATE_PARTITIONS, body, _PARTITIONS_VERSIONS))
    _raise_refused(answer["results"])


def alter_settings(
    admin: AdminClient, topic: str, given: Mapping[str, str], removed: Collection[str] = ()
) -> None:
    """Change a topic's own settings; those that are not named stay.

    Args:
        admin: Of the cluster; Kafka 2.3 or newer.
        topic: Name of an existing topic.
        given: Values by Kafka's dotted names.
        removed: Names that get the cluster's value again.

    Raises:
        KprodError: The cluster refuses, and nothing is changed; or it cannot be asked.
    """
    changes = [
        {"name": name, "config_operation": _SET, "value": value} for name, value in given.items()
    ]
    changes += [{"name": name, "config_operation": _DELETE, "value": None} for name in removed]
    resource = {"resource_type": _TOPIC_RESOURCE, "resource_name": topic, "configs": changes}
    body = {"resources": [resource], "validate_only": False}
    answer = admin.ask(
        Question(ApiKey.INCREMENTAL_ALTER_CONFIGS, body, _ALTER_VERSIONS, is_repeatable=True)
    )
    _raise_refused(answer["responses"], "resource_name")


def delete_topics(admin: AdminClient, names: Sequence[str]) -> dict[str, Exception]:
    """Delete topics with all their records.

    Args:
        admin: Of the cluster.
        names: At least one.

    Returns:
        Why, by name, for those that were not deleted.

    Raises:
        KprodError: The cluster cannot be asked.
    """
    body = {"topic_names": list(names), "timeout_ms": TIMEOUT_MS}
    answer = admin.ask(Question(ApiKey.DELETE_TOPICS, body, _DELETE_VERSIONS))
    return {
        entry["name"]: _error_of(entry)
        for entry in answer["responses"]
        if entry["error_code"] != ErrorCode.NONE
    }


def _states(admin: AdminClient, names: Iterable[str] | None) -> list[TopicState]:
    wanted = None if names is None else [{"name": name} for name in names]
    body = {"topics": wanted, "allow_auto_topic_creation": False}
    answer = admin.ask(Question(ApiKey.METADATA, body, _METADATA_VERSIONS, is_repeatable=True))
    _raise_refused(answer["topics"])
    return [_state(entry) for entry in answer["topics"]]


def _state(entry: Mapping[str, Any]) -> TopicState:
    topic_id = entry.get("topic_id")
    partitions = [
        PartitionState(
            partition=each["partition_index"],
            leader_id=each["leader_id"],
            leader_epoch=each.get("leader_epoch", -1),
            replicas=each["replica_nodes"],
            in_sync_replicas=each["isr_nodes"],
            offline_replicas=each.get("offline_replicas") or (),
        )
        for each in entry["partitions"]
    ]
    return TopicState(
        name=entry["name"],
        topic_id=str(topic_id) if topic_id is not None and topic_id.int else None,
        is_internal=bool(entry.get("is_internal")),
        partitions=sorted(partitions),
    )


def _raise_refused(entries: Iterable[Mapping[str, Any]], name_field: str = "name") -> None:
    for entry in entries:
        if entry["error_code"] != ErrorCode.NONE:
            raise _error_of(entry, name_field)


def _error_of(entry: Mapping[str, Any], name_field: str = "name") -> Exception:
    name = entry[name_field]
    if entry["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return UnknownTopic(f"the cluster has no topic {name!r}")
    said = entry.get("error_message")
    return error_for(entry["error_code"], f"topic {name}" + (f": {said}" if said else ""))
