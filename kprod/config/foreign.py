"""Names that other clients use: what kprod calls the same thing, or why it has no such setting.

Someone who moves from another client meets these first; "unknown setting" alone would not help.

Thread-safety: functions of their arguments.
Source: librdkafka's CONFIGURATION.md (2.16), kafka-python 3.0, aiokafka 0.14, Kafka clients 4.3.1.
"""

from types import MappingProxyType

_CALLED: MappingProxyType[str, str] = MappingProxyType(
    {
        "metadata_broker_list": "bootstrap_servers",
        "queue_buffering_max_ms": "linger_ms",
        "message_timeout_ms": "delivery_timeout_ms",
        "message_send_max_retries": "retries",
        "message_max_bytes": "max_request_size",
        "request_required_acks": "acks",
        "compression_codec": "compression_type",
        "max_in_flight": "max_in_flight_requests_per_connection",
        "socket_timeout_ms": "request_timeout_ms",
        "socket_send_buffer_bytes": "send_buffer_bytes",
        "socket_receive_buffer_bytes": "receive_buffer_bytes",
        "topic_metadata_refresh_interval_ms": "metadata_max_age_ms",
        "max_batch_size": "batch_size",
    }
)

_ANSWERS: MappingProxyType[str, str] = MappingProxyType(
    {
        "queue_buffering_max_kbytes": "kprod's name is buffer_memory, in bytes",
        "queue_buffering_max_messages": "kprod bounds memory, not records; see buffer_memory",
        "batch_num_messages": "kprod's batches are bounded in bytes; see batch_size",
        "compression_level": "each codec has its own, such as compression_zstd_level",
        "sticky_partitioning_linger_ms": "kprod changes the partition with each batch",
        "api_version": "versions are agreed with each broker; remove it",
        "api_version_auto_timeout_ms": "versions are agreed with each broker; remove it",
        "api_version_request": "versions are agreed with each broker; remove it",
        "broker_version_fallback": "versions are agreed with each broker; remove it",
        "delivery_report_only_error": "pass on_delivery to send only where it is wanted",
        "dr_cb": "pass on_delivery to send",
        "dr_msg_cb": "pass on_delivery to send",
        "on_delivery": "pass on_delivery to send",
        "loop": "a producer belongs to no event loop; remove it",
    }
)

_PREFIXES: tuple[tuple[str, str], ...] = (
    ("security_", "this version of kprod connects without TLS and SASL only"),
    ("ssl_", "this version of kprod connects without TLS and SASL only"),
    ("sasl_", "this version of kprod connects without TLS and SASL only"),
    ("transaction", "this version of kprod has no transactions"),
    ("interceptor", "this version of kprod has no interceptors"),
    ("metric", "this version of kprod exports no metrics"),
    ("group_", "it belongs to a consumer, and kprod only produces"),
    ("auto_offset_", "it belongs to a consumer, and kprod only produces"),
    ("fetch_", "it belongs to a consumer, and kprod only produces"),
)


def advice_for(written: str) -> str | None:
    """Return what to do about another client's setting.

    Args:
        written: The name, dotted or with underscores; not one of kprod's.

    Returns:
        A half sentence, or None for a name that is nobody's.
    """
    name = written.lower().replace(".", "_")
    if name in _CALLED:
        return f"kprod's name is {_CALLED[name]}"
    if name in _ANSWERS:
        return _ANSWERS[name]
    for prefix, advice in _PREFIXES:
        if name.startswith(prefix):
            return advice
    return None


def renamed() -> dict[str, str]:
    """Return kprod's name for each foreign one that has an equal."""
    return dict(_CALLED)
