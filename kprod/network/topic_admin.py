"""Topic administration: list, describe, create, enlarge, alter and delete topics.

Each function sends one request by the caller's `AdminClient`; errors have the topic's name and the
cluster's text.

Thread-safety: the client's thread.
Source: MetadataRequest, CreateTopicsRequest, CreatePartitionsRequest, DeleteTopicsRequest,
DescribeConfigsRequest, IncrementalAlterConfigsRequest (Kafka 4.3.1); KIP-339, KIP-464.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kprod.config import ClientConfig
from kprod.config.address import bootstrap_addresses
from kprod.errors import KprodError, UnknownTopic
from kprod.network.admin_client import TIMEOUT_MS, AdminClient, Question
from kprod.protocol.api import ApiKey
from kprod.protocol.denials import denial_or_error
from kprod.protocol.error_table import ErrorCode, error_for

OWN_SETTING = 1
"""`TopicSettingView.source` of a setting of the topic itself."""
_SOURCES = {1: "topic", 2: "broker", 3: "cluster", 4: "broker file", 5: "default"}
_TOPIC_RESOURCE = 2
_SET, _DELETE = 0, 1
# The first version in which −1 means the broker's replication factor, and the last without fields
# that are not needed here.
_CREATE_VERSIONS = (4, 7)
_PARTITIONS_VERSIONS = (0, 3)
_DELETE_VERSIONS = (1, 5)  # from version 6 on, topics may be identified by id
_DESCRIBE_VERSIONS = (1, 4)
_ALTER_VERSIONS = (0, 1)
_METADATA_VERSIONS = (4, 12)


class PartitionState(NamedTuple):
    """The controller's state of a partition.

    Attributes:
        partition: Partition number, from 0.
        leader_id: Id of the leader; −1 without one.
        leader_epoch: The leader epoch; −1 if the broker is too old to return it.
        replicas: Node ids of the replicas, the preferred leader first.
        in_sync_replicas: Node ids of the in-sync replicas.
        offline_replicas: Node ids of the offline replicas.
    """

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: Sequence[int]
    in_sync_replicas: Sequence[int]
    offline_replicas: Sequence[int]


class TopicState(NamedTuple):
    """The controller's state of a topic.

    Attributes:
        name: Its name.
        topic_id: The topic's id as text; None if the broker is too old to return it.
        is_internal: Whether it is one of Kafka's internal topics.
        partitions: The partitions, in order.
    """

    name: str
    topic_id: str | None
    is_internal: bool
    partitions: Sequence[PartitionState]


class TopicSettingView(NamedTuple):
    """A setting of a topic.

    Attributes:
        name: Kafka's dotted name.
        value: The value as text; None for a secret.
        source: Origin of the value; `OWN_SETTING` for the topic's own settings.
        source_name: The origin as text.
    """

    name: str
    value: str | None
    source: int
    source_name: str


def list_topics(admin: AdminClient) -> list[TopicState]:
    """Return all topics that this client may see.

    Args:
        admin: A client of the cluster.

    Returns:
        The topics, sorted by name.

    Raises:
        KprodError: The request failed.
    """
    return sorted(_states(admin, None), key=lambda state: state.name)


def describe_topics(admin: AdminClient, names: Sequence[str]) -> list[TopicState]:
    """Describe some topics, without creating them.

    Args:
        admin: A client of the cluster.
        names: At least one topic name.

    Returns:
        The topics in the order of `names`.

    Raises:
        UnknownTopic: A topic does not exist.
        KprodError: The cluster rejects the request, or it failed.
    """
    by_name = {state.name: state for state in _states(admin, names)}
    return [by_name[name] for name in names]


def find_topics(admin: AdminClient, names: Sequence[str]) -> dict[str, TopicState | KprodError]:
    """Describe the topics of some names that can be described.

    Args:
        admin: A client of the cluster.
        names: Any number of topic names.

    Returns:
        The topic, or the reason why it cannot be described, for each name.

    Raises:
        KprodError: The request failed.
    """
    if not names:
        return {}
    found: dict[str, TopicState | KprodError] = {
        name: UnknownTopic(f"the cluster has no topic {name!r}") for name in names
    }
    for entry in _entries(admin, names):
        is_told = entry["error_code"] == ErrorCode.NONE
        found[entry["name"]] = _state(entry) if is_told else _denial_of(admin, entry)
    return found


def describe_settings(admin: AdminClient, topic: str) -> list[TopicSettingView]:
    """Return all settings of a topic, including the cluster's and Kafka's defaults.

    Args:
        admin: A client of the cluster.
        topic: Name of an existing topic.

    Returns:
        The topics, sorted by name.

    Raises:
        KprodError: The cluster rejects the request, or it failed.
    """
    resource = {"resource_type": _TOPIC_RESOURCE, "resource_name": topic}
    body = {"resources": [{**resource, "configuration_keys": None}]}
    answer = admin.ask(
        Question(ApiKey.DESCRIBE_CONFIGS, body, _DESCRIBE_VERSIONS, is_repeatable=True)
    )
    _raise_rejected(answer["results"], "resource_name")
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
    """Create a topic.

    Args:
        admin: A client of the cluster.
        topic: An unused name.
        partition_count: Number of partitions, at least 1; −1 for the cluster's default.
        replication_factor: Number of replicas, at least 1; −1 for the cluster's default.
        settings: The topic's settings, such as `cleanup.policy`; others are the cluster's.

    Raises:
        KprodError: The cluster rejects the request, and the text says why; or it failed.
    """
    wish = {
        "name": topic,
        "num_partitions": partition_count,
        "replication_factor": replication_factor,
        "configs": [{"name": name, "value": value} for name, value in (settings or {}).items()],
    }
    body = {"topics": [wish], "timeout_ms": TIMEOUT_MS}
    answer = admin.ask(Question(ApiKey.CREATE_TOPICS, body, _CREATE_VERSIONS))
    _raise_rejected(answer["topics"])


def create_topic(
    cluster: str | Sequence[str] | ClientConfig,
    topic: str,
    partition_count: int,
    *,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Connect, create a topic with the cluster's replication factor, and disconnect.

    Args:
        cluster: `host:port,host:port`, or a client configuration.
        topic: An unused name.
        partition_count: At least 1.
        settings: As for `make_topic`.

    Raises:
        ConfigError: The addresses are invalid.
        KprodError: The cluster rejects the request, or it failed.
    """
    config = (
        cluster
        if isinstance(cluster, ClientConfig)
        else ClientConfig(bootstrap_servers=bootstrap_addresses(cluster), client_id="kprod")
    )
    with AdminClient(config) as admin:
        make_topic(admin, topic, partition_count, settings=settings)


def add_partitions(admin: AdminClient, topic: str, partition_count: int) -> None:
    """Add partitions to a topic; keys are then mapped to other partitions than before.

    Args:
        admin: A client of the cluster.
        topic: Name of an existing topic.
        partition_count: The new total, above the present number.

    Raises:
        KprodError: The cluster rejects the request, and the text says why; or it failed.
    """
    wish = {"name": topic, "count": partition_count, "assignments": None}
    body = {"topics": [wish], "timeout_ms": TIMEOUT_MS, "validate_only": False}
    answer = admin.ask(Question(ApiKey.CREATE_PARTITIONS, body, _PARTITIONS_VERSIONS))
    _raise_rejected(answer["results"])


def alter_settings(
    admin: AdminClient, topic: str, given: Mapping[str, str], removed: Collection[str] = ()
) -> None:
    """Change some of a topic's settings.

    Args:
        admin: A client of the cluster, which must be Kafka 2.3 or newer.
        topic: Name of an existing topic.
        given: New values by Kafka's dotted names.
        removed: Names of settings that return to the cluster's value.

    Raises:
        KprodError: The cluster rejects the request, and nothing is changed; or it failed.
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
    _raise_rejected(answer["responses"], "resource_name")


def delete_topics(admin: AdminClient, names: Sequence[str]) -> dict[str, Exception]:
    """Delete topics with all their records.

    Args:
        admin: A client of the cluster.
        names: At least one topic name.

    Returns:
        The errors, by name, of the topics that were not deleted.

    Raises:
        KprodError: The request failed.
    """
    body = {"topic_names": list(names), "timeout_ms": TIMEOUT_MS}
    answer = admin.ask(Question(ApiKey.DELETE_TOPICS, body, _DELETE_VERSIONS))
    return {
        entry["name"]: _error_of(entry)
        for entry in answer["responses"]
        if entry["error_code"] != ErrorCode.NONE
    }


def _states(admin: AdminClient, names: Iterable[str] | None) -> list[TopicState]:
    entries = _entries(admin, names)
    _raise_rejected(entries)
    return [_state(entry) for entry in entries]


def _entries(admin: AdminClient, names: Iterable[str] | None) -> list[dict[str, Any]]:
    wanted = None if names is None else [{"name": name} for name in names]
    body = {"topics": wanted, "allow_auto_topic_creation": False}
    answer = admin.ask(Question(ApiKey.METADATA, body, _METADATA_VERSIONS, is_repeatable=True))
    entries: list[dict[str, Any]] = answer["topics"]
    return entries


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


def _raise_rejected(entries: Iterable[Mapping[str, Any]], name_field: str = "name") -> None:
    for entry in entries:
        if entry["error_code"] != ErrorCode.NONE:
            raise _error_of(entry, name_field)


def _denial_of(admin: AdminClient, entry: Mapping[str, Any]) -> KprodError:
    if entry["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        code, name = entry["error_code"], entry["name"]
        return denial_or_error(code, "DESCRIBE", name, principal=admin.principal)
    return _error_of(entry)


def _error_of(entry: Mapping[str, Any], name_field: str = "name") -> KprodError:
    name = entry[name_field]
    if entry["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return UnknownTopic(f"the cluster has no topic {name!r}")
    said = entry.get("error_message")
    return error_for(entry["error_code"], f"topic {name}" + (f": {said}" if said else ""))
