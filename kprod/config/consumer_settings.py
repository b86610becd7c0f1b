"""The settings of a consumer as keyword arguments, for type checkers and editors.

Generated from the table in `kprod/config` by `make docs`; do not edit. A program never reads it:
`ConsumerConfig.parse` checks settings, and takes numbers and flags as texts, too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from kprod.interfaces import ConsumerInterceptor, PartitionAssignor, TokenProvider
from kprod.secret import Secret

if TYPE_CHECKING:
    from ssl import SSLContext


class ConsumerSettings(TypedDict, total=False):
    """Every setting by its Python names; `docs/consumer_configuration.md` has their bounds."""

    bootstrap_servers: str | Sequence[str]
    """Brokers to ask first; the cluster names the others. Required."""

    client_id: str
    """The name that brokers see in requests, logs and quotas; empty: `producer-1`, `producer-2`, …
    or `consumer-1`, … in the order of making."""

    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
    """Try every address of a name in turn, or first replace each bootstrap name by the canonical
    names of its addresses."""

    metadata_max_age_ms: int
    """Cluster metadata is fetched again at this age, even if nothing went wrong. In ms."""

    metadata_max_idle_ms: int
    """A topic that is not sent to for this long is no longer asked about. In ms."""

    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    """Action when no known broker can be used: `rebootstrap` starts again from `bootstrap_servers`;
    `none` keeps trying the known ones."""

    metadata_recovery_rebootstrap_trigger_ms: int
    """Bootstrap again from `bootstrap_servers` when no broker has said anything about the cluster
    for this long. In ms."""

    allow_auto_create_topics: bool
    """Let the broker create an unknown topic. Kafka's default is true; a reader that makes the
    topic hides the typing error."""

    request_timeout_ms: int
    """Wait for one response; then the connection is closed and the request retried. In ms."""

    retry_backoff_ms: int
    """Wait before the first retry; it doubles with each, ±20 %. In ms."""

    retry_backoff_max_ms: int
    """The longest wait between retries. In ms."""

    max_in_flight_requests_per_connection: int
    """Requests sent to one broker and not answered yet."""

    reconnect_backoff_ms: int
    """Wait before connecting again; it doubles with each failure, ±20 %. In ms."""

    reconnect_backoff_max_ms: int
    """The longest wait before connecting again. In ms."""

    socket_connection_setup_timeout_ms: int
    """Wait for a connection to stand; it doubles with each failure, ±20 %. In ms."""

    socket_connection_setup_timeout_max_ms: int
    """The longest wait for a connection to stand. In ms."""

    connections_max_idle_ms: int
    """A connection that carries nothing for this long is closed (just below the ten minutes after
    which a broker does); -1 never closes one. In ms."""

    send_buffer_bytes: int
    """The socket's send buffer (SO_SNDBUF); -1 lets the system grow it as needed. Kafka's 131,072
    takes an eighth of a batch at a time. In bytes."""

    receive_buffer_bytes: int
    """The socket's receive buffer (SO_RCVBUF); -1 lets the system grow it as needed. Kafka's 65,536
    takes a sixty-fourth of a response at a time. In bytes."""

    address_filter: Callable[..., Any] | None
    """Called as `address_filter(host, port)` before a connection to an address that the cluster
    advertises, in a thread of kprod's own, which it must not block; if the result is false, the
    client does not connect to it. None: every address is allowed."""

    auto_offset_reset: str
    """Starting position in a partition without a position, or whose position is no longer in the
    log: the first record, the end of the log, or the first record with a timestamp within a
    duration before now; `none` raises `NoOffset`."""

    isolation_level: Literal["read_uncommitted", "read_committed"]
    """`read_committed` gives no record of a transaction that is open or was aborted, and reads up
    to the first open one."""

    max_poll_records: int
    """The most records that one `poll` returns, if it is not told otherwise."""

    consumer_timeout_ms: int
    """Iteration ends when no record has come for this time; -1 never ends it. kafka-python's
    setting. In ms."""

    default_api_timeout_ms: int
    """The longest that a call such as `position` or `offsets_for_times` waits, if it is not told
    otherwise. In ms."""

    exclude_internal_topics: bool
    """Reject an internal topic that is to be read as a whole; its partitions can always be
    assigned."""

    key_deserializer: Callable[..., Any] | None
    """Called with each key that is not null. None: keys are bytes."""

    value_deserializer: Callable[..., Any] | None
    """Called with each value that is not null. None: values are bytes."""

    value_type: Literal["bytes", "memoryview"]
    """Type of keys and values: `memoryview` copies nothing, but each record keeps the whole block
    that it was read from, which does not count in `fetch_buffer_memory`."""

    interceptors: Sequence[ConsumerInterceptor]
    """Objects that see the records that `poll` and the iterator hand out."""

    interceptor_classes: Sequence[ConsumerInterceptor]
    """Objects that see the records that `poll` and the iterator hand out."""

    group_id: str | None
    """The consumer group: its members share the partitions of the topics that they subscribe to,
    and each group gets all records. Empty: `subscribe` reads every partition, and nothing is
    committed."""

    group_instance_id: str | None
    """Makes a static member (KIP-345): one that is closed and started again within
    `session_timeout_ms` gets its partitions again without a rebalance. Unique in the group."""

    partition_assignment_strategy: str | Sequence[str | PartitionAssignor]
    """Assignors in order of preference; the group uses one that all members have. Members keep
    their partitions during a rebalance if all of them are cooperative."""

    session_timeout_ms: int
    """A member without a heartbeat for this long loses its partitions. Brokers accept 6 s to 30 min
    by default. In ms."""

    heartbeat_interval_ms: int
    """Time between heartbeats, at most a third of `session_timeout_ms`. A member learns of a
    rebalance by a heartbeat's response. In ms."""

    max_poll_interval_ms: int
    """The longest time between two polls, or two records of an iteration: then the member leaves
    the group, and others get its partitions. `progress()` counts as a poll. Also the time that
    members have to join a rebalance. In ms."""

    enable_auto_commit: bool
    """Commit positions every `auto_commit_interval_ms`, before partitions are given up, and in
    `close`: never beyond the records that the application has asked past."""

    auto_offset_store: bool
    """False: automatic commits, and commits without offsets, take only the offsets that the
    application has given to `store_offsets`. confluent-kafka's setting."""

    enable_auto_offset_store: bool
    """False: automatic commits, and commits without offsets, take only the offsets that the
    application has given to `store_offsets`. confluent-kafka's setting."""

    auto_commit_interval_ms: int
    """Time between automatic commits. In ms."""

    fetch_buffer_memory: int
    """Memory for responses that are asked for or wait to be read, of all partitions together. It
    may be exceeded by one batch of each broker, which a broker returns whole though less was asked
    for (KIP-74); a batch larger than all of it is read alone. In bytes."""

    fetch_min_bytes: int
    """A broker answers a fetch once it has this much, or after `fetch_max_wait_ms`. In bytes."""

    fetch_max_wait_ms: int
    """The longest that a broker waits for `fetch_min_bytes`; below `request_timeout_ms`, since the
    other requests of the connection wait, too. The one of the two that was not set gives way, with
    a line in the log. In ms."""

    fetch_max_bytes: int
    """The most bytes of one response; a single batch may be larger. In bytes."""

    max_partition_fetch_bytes: int
    """The most bytes of one partition in a response; a single batch may be larger. Kafka's 1 MiB
    makes four times as many responses, and beside a busy application each waits up to 5 ms for the
    GIL. In bytes."""

    check_crcs: bool
    """Compare the checksum of each batch with its bytes."""

    client_rack: str
    """Rack of this client, as in the brokers' `broker.rack`: it reads from replicas in that rack,
    if the brokers' `replica.selector.class` supports it."""

    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]
    """SASL mechanism of the login; the listener must support it."""

    sasl_mechanisms: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]
    """SASL mechanism of the login; the listener must support it."""

    sasl_plain_username: str
    """The user that logs in, by PLAIN or SCRAM."""

    sasl_username: str
    """The user that logs in, by PLAIN or SCRAM."""

    sasl_plain_password: str | Secret | Callable[[], str | Secret]
    """The user's password, for PLAIN or SCRAM, which never sends it. A function is asked before
    each login, in a thread of its own, so that a password can change."""

    sasl_password: str | Secret | Callable[[], str | Secret]
    """The user's password, for PLAIN or SCRAM, which never sends it. A function is asked before
    each login, in a thread of its own, so that a password can change."""

    sasl_scram_tokenauth: bool
    """Log in with a delegation token by SCRAM: the name is the token's id, the password its HMAC in
    base64."""

    sasl_oauth_token_provider: TokenProvider | Callable[..., Any] | None
    """Gives the tokens of OAUTHBEARER, in a thread of its own. `kprod.providers` has some."""

    oauth_cb: TokenProvider | Callable[..., Any] | None
    """Gives the tokens of OAUTHBEARER, in a thread of its own. `kprod.providers` has some."""

    sasl_oauthbearer_token_file: str
    """A file that something else keeps new, as Kubernetes does; read for each token."""

    sasl_oauthbearer_token_endpoint_url: str
    """Token endpoint of an OIDC server, which gets the client's id and secret. Requests use TLS and
    no proxy, and redirects are not followed."""

    sasl_oauthbearer_client_id: str
    """The client's id at the OIDC server."""

    sasl_oauthbearer_client_credentials_client_id: str
    """The client's id at the OIDC server."""

    sasl_oauthbearer_client_secret: str | Secret
    """The client's secret at the OIDC server."""

    sasl_oauthbearer_client_credentials_client_secret: str | Secret
    """The client's secret at the OIDC server."""

    sasl_oauthbearer_scope: str
    """Scope of the requested token."""

    sasl_oauthbearer_extensions: str | Mapping[str, str]
    """Further fields of the login, such as Confluent Cloud's `logicalCluster`."""

    sasl_oauthbearer_config: str
    """The argument of a token provider that takes one, as librdkafka's `oauth_cb` does."""

    https_cafile: str
    """The certificate authorities to trust for the OIDC server, instead of the brokers'."""

    https_ca_location: str
    """The certificate authorities to trust for the OIDC server, instead of the brokers'."""

    sasl_kerberos_service_name: str
    """The first part of the brokers' Kerberos principals."""

    sasl_kerberos_principal: str
    """The principal that logs in by GSSAPI; the default of the keytab or of the ticket cache
    otherwise."""

    sasl_kerberos_keytab: str
    """The keys of GSSAPI's principal; without it, the ticket cache is used. No `kinit` is run."""

    sasl_kerberos_domain_name: str
    """The host in the brokers' principals, where it is not the one they are asked by."""

    sasl_jaas_config: str | Secret
    """A login in Java's form, instead of the settings before."""

    sasl_allow_cleartext: bool
    """Let PLAIN send the password, and OAUTHBEARER the token, without TLS to other addresses than
    loopback ones."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """Protocol of the listener: with TLS (`SSL`, `SASL_SSL`) or without, and with a login
    (`SASL_…`) or without."""

    ssl_context: "SSLContext | None"
    """A context of the application's own, used as it is and never changed; no other setting of TLS
    goes with it."""

    ssl_cafile: str
    """The certificate authorities to trust, instead of the system's. PKCS#12 needs `kprod[tls]`."""

    ssl_truststore_location: str
    """The certificate authorities to trust, instead of the system's. PKCS#12 needs `kprod[tls]`."""

    ssl_ca_location: str
    """The certificate authorities to trust, instead of the system's. PKCS#12 needs `kprod[tls]`."""

    ssl_cadata: str
    """The certificate authorities to trust, instead of the system's, as text."""

    ssl_truststore_certificates: str
    """The certificate authorities to trust, instead of the system's, as text."""

    ssl_ca_pem: str
    """The certificate authorities to trust, instead of the system's, as text."""

    ssl_truststore_password: str | Secret
    """Password of a PKCS#12 file in `ssl_cafile`."""

    ssl_certfile: str
    """The client's own certificate and its chain; its key too, where `ssl_keyfile` is not given.
    PKCS#12 needs `kprod[tls]`."""

    ssl_keystore_location: str
    """The client's own certificate and its chain; its key too, where `ssl_keyfile` is not given.
    PKCS#12 needs `kprod[tls]`."""

    ssl_certificate_location: str
    """The client's own certificate and its chain; its key too, where `ssl_keyfile` is not given.
    PKCS#12 needs `kprod[tls]`."""

    ssl_keyfile: str
    """The key of `ssl_certfile`."""

    ssl_key_location: str
    """The key of `ssl_certfile`."""

    ssl_certdata: str
    """As `ssl_certfile`, as text."""

    ssl_keystore_certificate_chain: str
    """As `ssl_certfile`, as text."""

    ssl_certificate_pem: str
    """As `ssl_certfile`, as text."""

    ssl_keydata: str | Secret
    """The key of `ssl_certdata`, as PEM text."""

    ssl_keystore_key: str | Secret
    """The key of `ssl_certdata`, as PEM text."""

    ssl_key_pem: str | Secret
    """The key of `ssl_certdata`, as PEM text."""

    ssl_password: str | Secret
    """Password of the client's encrypted private key, or of its PKCS#12 file."""

    ssl_key_password: str | Secret
    """Password of the client's encrypted private key, or of its PKCS#12 file."""

    ssl_keystore_password: str | Secret
    """Password of the client's encrypted private key, or of its PKCS#12 file."""

    ssl_check_hostname: bool | Literal["https", "none", ""]
    """Whether a broker's certificate must be for the name that it was asked by."""

    ssl_endpoint_identification_algorithm: bool | Literal["https", "none", ""]
    """Whether a broker's certificate must be for the name that it was asked by."""

    ssl_enabled_protocols: str | Sequence[str]
    """The versions of TLS to speak."""

    ssl_ciphers: str
    """The ciphers of TLS 1.2 to offer, instead of OpenSSL's choice."""

    ssl_cipher_suites: str
    """The ciphers of TLS 1.2 to offer, instead of OpenSSL's choice."""

    ssl_crlfile: str
    """Certificates that were revoked; a broker's must not be among them."""

    ssl_crl_location: str
    """Certificates that were revoked; a broker's must not be among them."""
