"""Names that other clients' consumers use: what kprod calls the same thing, or why it has none.

Settings that both kinds of client have are in `foreign`; this module has those of consumers only,
and those that only producers have.

Thread-safety: pure functions.
Source: librdkafka's CONFIGURATION.md (2.16), kafka-python 3.0, aiokafka 0.14, Kafka clients 4.3.1.
"""

from types import MappingProxyType

from kprod.config.foreign import BELONGS_TO_CONSUMER, advice_for

_REMOVE = "remove it"
_CLASSIC_ONLY = "kprod's groups use the classic protocol; remove it"
_ON_COMMIT = "pass a callback to commit_async(callback=…); sync commits raise"
_STORE = f"the brokers store offsets; see auto_offset_store and enable_auto_commit; {_REMOVE}"
_BROKERS_STORE = f"the brokers store committed offsets, kprod no files; {_REMOVE}"
_NO_SHARE_GROUPS = "kprod has no share groups (KIP-932); remove it"
_OWN_TOPICS = f"kprod asks the cluster only for topics that it reads; {_REMOVE}"
_COUNTED = f"metrics are always counted and read by consumer.metrics(); {_REMOVE}"
BELONGS_TO_PRODUCER = "it belongs to a producer"
_RAISED = (
    "errors are raised by poll and by the iterator, the rest is logged; see the logger 'kprod'"
)

_CALLED: MappingProxyType[str, str] = MappingProxyType(
    {
        "metadata_broker_list": "bootstrap_servers",
        "fetch_wait_max_ms": "fetch_max_wait_ms",
        "fetch_message_max_bytes": "max_partition_fetch_bytes",
        "topic_metadata_refresh_interval_ms": "metadata_max_age_ms",
        "socket_timeout_ms": "request_timeout_ms",
        "socket_send_buffer_bytes": "send_buffer_bytes",
        "socket_receive_buffer_bytes": "receive_buffer_bytes",
        "max_in_flight": "max_in_flight_requests_per_connection",
    }
)

_ANSWERS: MappingProxyType[str, str] = MappingProxyType(
    {
        "queued_max_messages_kbytes": "kprod's name is fetch_buffer_memory, in bytes (times 1,024)"
        " and of all partitions together; librdkafka's is of each",
        "queued_min_messages": "kprod reads ahead by memory, not by records; see"
        " fetch_buffer_memory",
        "fetch_queue_backoff_ms": f"a partition is fetched again as soon as there is memory;"
        f" {_REMOVE}",
        "fetch_error_backoff_ms": "kprod's names are retry_backoff_ms and retry_backoff_max_ms",
        "enable_partition_eof": "lag(partition) is 0 at the end; end_offsets tells where it is",
        "consume_callback_max_messages": "see max_poll_records",
        "offset_store_method": _STORE,
        "rebalance_cb": "pass a listener to subscribe(topics, listener=…)",
        "offset_commit_cb": _ON_COMMIT,
        "on_commit": _ON_COMMIT,
        "default_offset_commit_callback": _ON_COMMIT,
        "rebalance_timeout_ms": "kprod's name is max_poll_interval_ms",
        "auto_commit_enable": "kprod's name is enable_auto_commit",
        "offset_store_path": _BROKERS_STORE,
        "offset_store_sync_interval_ms": _BROKERS_STORE,
        "coordinator_query_interval_ms": "the coordinator is asked for when it is lost; remove it",
        "exclude_internal_topic": "kprod's name is exclude_internal_topics",
        "error_cb": _RAISED,
        "stats_cb": _COUNTED,
        "message_max_bytes": BELONGS_TO_PRODUCER,
        "message_copy_max_bytes": BELONGS_TO_PRODUCER,
        "opaque": BELONGS_TO_PRODUCER,
        "topic_metadata_refresh_sparse": _OWN_TOPICS,
        "topic_blacklist": _OWN_TOPICS,
        "topic_metadata_propagation_max_ms": "a topic that nobody knows raises UnknownTopic after"
        f" 5 s; {_REMOVE}",
        "bootstrap_timeout_ms": "a consumer connects in the background; poll waits as long as you"
        f" say; {_REMOVE}",
        "loop": f"a consumer belongs to no event loop; {_REMOVE}",
        "open_cb": f"kprod's consumer opens no files; {_REMOVE}",
        "consume_cb": "poll and the iterator return records; nothing is called with them",
        "enable_incremental_fetch_sessions": f"fetches are always in a session; {_REMOVE}",
        "share_acknowledgement_mode": _NO_SHARE_GROUPS,
        "share_acquire_mode": _NO_SHARE_GROUPS,
        "config_providers": "resolve such texts before you pass the settings on",
        "legacy_iterator": f"there is one iterator; {_REMOVE}",
        "receive_message_max_bytes": f"kprod bounds what it reads by itself; {_REMOVE}",
    }
)

_PREFIXES: tuple[tuple[str, str], ...] = (
    ("metric", _COUNTED),
    ("group_protocol", _CLASSIC_ONLY),
    ("group_remote_assignor", _CLASSIC_ONLY),
    ("partition_assignor", "kprod's name is partition_assignment_strategy"),
    ("linger_", BELONGS_TO_PRODUCER),
    ("batch_", BELONGS_TO_PRODUCER),
    ("acks", BELONGS_TO_PRODUCER),
    ("compression_", BELONGS_TO_PRODUCER),
    ("delivery_", BELONGS_TO_PRODUCER),
    ("enable_idempotence", BELONGS_TO_PRODUCER),
    ("transaction", BELONGS_TO_PRODUCER),
    ("max_block_ms", BELONGS_TO_PRODUCER),
    ("buffer_memory", BELONGS_TO_PRODUCER),
    ("partitioner", BELONGS_TO_PRODUCER),
    ("key_serializer", BELONGS_TO_PRODUCER + "; see key_deserializer"),
    ("value_serializer", BELONGS_TO_PRODUCER + "; see value_deserializer"),
    ("interceptor", "kprod's name is interceptors: a list of objects"),
)


def consumer_advice_for(written: str) -> str | None:
    """Return what to do about another client's setting of a consumer.

    Args:
        written: The name, dotted or with underscores; not one of kprod's.

    Returns:
        Half a sentence, or None for an unknown name.
    """
    name = written.lower().replace(".", "_")
    if name in _CALLED:
        return f"kprod's name is {_CALLED[name]}"
    if name in _ANSWERS:
        return _ANSWERS[name]
    for prefix, advice in _PREFIXES:
        if name.startswith(prefix):
            return advice
    answer = advice_for(written)
    return None if answer == BELONGS_TO_CONSUMER else answer


def renamed_of_consumer() -> dict[str, str]:
    """Return kprod's name for each foreign one of a consumer that has an equal."""
    return dict(_CALLED)
