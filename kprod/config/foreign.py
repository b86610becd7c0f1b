"""Map other clients' settings to kprod's, or to the reason why kprod has no such setting.

Someone who moves from another client tries these names first; "unknown setting" alone would not
help. kprod accepts none of them: the error names kprod's equivalent, or explains how a similar
setting differs. A test reads the other clients' lists of settings, and fails for a name that is
neither listed here nor a setting of kprod.

Thread-safety: pure functions.
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
        "partitioner_cb": "partitioner",
    }
)

_REMOVE = "remove it"
_VERSIONS = f"versions are agreed with each broker; {_REMOVE}"
_NO_LONGER = f"librdkafka itself no longer uses it; {_REMOVE}"
_OWN_TOPICS = f"kprod asks the cluster only for topics that it sends to; {_REMOVE}"
_ON_DELIVERY = "pass on_delivery to send, for each record where it is wanted"
_LOGGING = "kprod writes to the standard library's logger 'kprod'; configure that"
_SOCKETS = "kprod makes its own sockets, with TCP_NODELAY and SO_KEEPALIVE; "
_NO_PROXY = "this version of kprod connects to brokers directly, through no proxy"
_SECURITY = "docs/security.md has the settings of TLS and logins"
_METRICS = "metrics are always counted and read by producer.metrics() (docs/metrics.md); remove it"
_NO_TRANSACTIONS = "this version of kprod has no transactions"
BELONGS_TO_CONSUMER = "it belongs to a consumer"

_ANSWERS: MappingProxyType[str, str] = MappingProxyType(
    {
        "queue_buffering_max_kbytes": "kprod's name is buffer_memory, in bytes: times 1,024",
        "queue_buffering_max_messages": "kprod bounds memory, not records; see buffer_memory",
        "queue_buffering_backpressure_threshold": "a batch stays open for records until its"
        f" broker can take a request; {_REMOVE}",
        "batch_num_messages": "kprod's batches are bounded in bytes; see batch_size",
        "compression_level": "each codec has its own, such as compression_zstd_level",
        "sticky_partitioning_linger_ms": "kprod changes the partition with each batch; "
        "linger_ms=0 changes it soonest",
        "message_copy_max_bytes": f"kprod copies a record once, into its batch; {_REMOVE}",
        "receive_message_max_bytes": f"kprod bounds what it reads by itself; {_REMOVE}",
        "enable_gapless_guarantee": "after a failure kprod continues with later records; look at"
        " each outcome, and close the producer where a gap must not be",
        "queuing_strategy": f"records of a partition are always sent in order; {_REMOVE}",
        "msg_order_cmp": f"records of a partition are always sent in order; {_REMOVE}",
        "produce_offset_report": f"every outcome has its offset; {_REMOVE}",
        "builtin_features": f"kprod always has all four codecs; {_REMOVE}",
        "broker_version_fallback": _VERSIONS,
        "delivery_report_only_error": _ON_DELIVERY,
        "dr_cb": _ON_DELIVERY,
        "dr_msg_cb": _ON_DELIVERY,
        "on_delivery": _ON_DELIVERY,
        "opaque": "bind what a callback needs with functools.partial",
        "default_topic_conf": "every setting counts for all topics; give them without it",
        "default_topic_config": "every setting counts for all topics; give them without it",
        "topic_metadata_refresh_fast_interval_ms": "kprod's names are retry_backoff_ms and"
        " retry_backoff_max_ms, for whatever is asked again",
        "topic_metadata_refresh_fast_cnt": _NO_LONGER,
        "topic_metadata_refresh_sparse": _OWN_TOPICS,
        "topic_blacklist": _OWN_TOPICS,
        "topic_metadata_propagation_max_ms": "a topic that nobody knows yet is waited for within"
        " max_block_ms",
        "metadata_request_timeout_ms": "see request_timeout_ms, for requests of every kind",
        "bootstrap_timeout_ms": "a producer connects in the background; what a send waits for it"
        " is within max_block_ms",
        "reconnect_backoff_jitter_ms": f"each wait varies by ±20 %; {_REMOVE}",
        "debug": _LOGGING,
        "logger": _LOGGING,
        "error_cb": "what concerns a record is its outcome, the rest is logged; see the logger"
        " 'kprod'",
        "background_event_cb": _LOGGING,
        "enabled_events": _LOGGING,
        "throttle_cb": _LOGGING,
        "loop": f"a producer belongs to no event loop; {_REMOVE}",
        "socket_keepalive_enable": _SOCKETS + _REMOVE,
        "socket_nagle_disable": _SOCKETS + _REMOVE,
        "socket_options": _SOCKETS + "see send_buffer_bytes and receive_buffer_bytes",
        "socket_cb": _SOCKETS + _REMOVE,
        "connect_cb": _SOCKETS + _REMOVE,
        "closesocket_cb": _SOCKETS + _REMOVE,
        "client_software_name": f"a broker is told that this is kprod; {_REMOVE}",
        "resolve_cb": f"names are looked up by the operating system; {_REMOVE}",
        "socket_blocking_max_ms": _NO_LONGER,
        "socket_max_fails": "a connection is closed at the first request that is not answered"
        f" within request_timeout_ms; {_REMOVE}",
        "broker_address_ttl": f"a name is looked up for each connection; {_REMOVE}",
        "broker_address_family": f"every address of a name is tried; {_REMOVE}",
        "open_cb": f"it opens files for a consumer; {_REMOVE}",
        "internal_termination_signal": f"kprod's thread ends without a signal; {_REMOVE}",
        "enable_random_seed": f"kprod uses no random numbers of the C library; {_REMOVE}",
        "plugin_library_paths": "kprod loads no plugins; see interceptors",
        "enable_metrics_push": f"nothing about an application leaves kprod unasked; {_REMOVE}",
        "stats_cb": _METRICS,
        "oauth_cb": _SECURITY,
        "proxy_url": _NO_PROXY,
        "socks5_proxy": _NO_PROXY,
        "selector": f"the operating system's best is chosen; {_REMOVE}",
        "kafka_client": f"kprod's network client cannot be exchanged; {_REMOVE}",
    }
)

_PREFIXES: tuple[tuple[str, str], ...] = (
    ("api_version", _VERSIONS),
    ("log_", _LOGGING),
    ("test_mock_", "kprod's own is kprod.broker.EmbeddedCluster"),
    ("security_", _SECURITY),
    ("ssl_", _SECURITY),
    ("https_", _SECURITY),
    ("enable_ssl_", "certificates are always verified; pass an ssl_context for another way"),
    ("sasl_", _SECURITY),
    ("enable_sasl_", "set sasl_oauth_token_provider, in tests to kprod.providers.unsecured"),
    ("oauthbearer_", _SECURITY),
    ("transaction", _NO_TRANSACTIONS),
    ("interceptor", "kprod's name is interceptors: a list of objects"),
    ("metric", _METRICS),
    ("statistics_", _METRICS),
    ("group_", BELONGS_TO_CONSUMER),
    ("auto_", BELONGS_TO_CONSUMER),
    ("enable_auto_", BELONGS_TO_CONSUMER),
    ("fetch_", BELONGS_TO_CONSUMER),
    ("max_poll_", BELONGS_TO_CONSUMER),
    ("session_timeout", BELONGS_TO_CONSUMER),
    ("heartbeat_", BELONGS_TO_CONSUMER),
    ("partition_assign", BELONGS_TO_CONSUMER),
    ("share_", BELONGS_TO_CONSUMER),
)


def advice_for(written: str) -> str | None:
    """Return what to do about another client's setting.

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
    return None


def renamed() -> dict[str, str]:
    """Return kprod's name for each foreign one that has an equal."""
    return dict(_CALLED)
