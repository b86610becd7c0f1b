"""The settings of a producer as keyword arguments, for type checkers and editors.

Generated from the table in `kprod/config` by `make docs`; do not edit. A program never reads it:
`ProducerConfig.parse` checks settings, and takes numbers and flags as texts, too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from kprod.interfaces import Interceptor, Partitioner, TokenProvider
from kprod.model import Acks, Codec
from kprod.secret import Secret

if TYPE_CHECKING:
    from ssl import SSLContext

PartitionerName = Literal[
    "murmur2",
    "consistent",
    "consistent_random",
    "fnv1a",
    "fnv1a_random",
    "round_robin",
]


class ProducerSettings(TypedDict, total=False):
    """Every setting by its Python names; `docs/configuration.md` has them with their bounds."""

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
    """Let the broker create an unknown topic, if its own settings allow it."""

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
    """The socket's receive buffer (SO_RCVBUF); -1 leaves it alone. In bytes."""

    address_filter: Callable[..., Any] | None
    """Called as `address_filter(host, port)` before a connection to an address that the cluster
    advertises, in a thread of kprod's own, which it must not block; if the result is false, the
    client does not connect to it. None: every address is allowed."""

    acks: Literal["all", -1, 0, 1] | Acks
    """Replicas that must have a batch before the broker responds: all in-sync ones, the leader
    alone, or nobody (0: no response, offsets are -1)."""

    enable_idempotence: bool
    """No record twice and none out of order, whatever is retried. Switched off (with a line in the
    log) by `acks` other than all or `retries=0`, unless it is asked for: then those are an
    error."""

    delivery_timeout_ms: int
    """From `send` to the outcome, at the most. At least `linger_ms` + `request_timeout_ms`: those
    of the three that were not set give way (with a line in the log), the request timeout first;
    three set values that contradict each other are an error. In ms."""

    retries: int
    """Attempts after the first; better left alone, as `delivery_timeout_ms` is the limit that means
    something."""

    linger_ms: int
    """A batch that is not full waits this long for more records. In ms."""

    batch_size: int
    """A batch is full at this many bytes before compression. A limit, not an allocation (Kafka's
    16,384 is both): memory follows the records. Where it is not given and `max_request_size` is
    smaller, that is the limit. In bytes."""

    buffer_memory: int
    """Memory for records that are not delivered yet. In bytes."""

    on_buffer_full: Literal["block", "raise"]
    """Whether `send` waits for memory, up to `max_block_ms`, or raises `BufferTimeout` at once."""

    max_block_ms: int
    """The longest that one `send` waits, for metadata and memory together. In ms."""

    max_request_size: int
    """The largest request, and the largest record before compression. In bytes."""

    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] | Codec | None
    """Codec that compresses batches."""

    compression_gzip_level: int
    """1 is fast, 9 is small, -1 is zlib's choice (6)."""

    compression_lz4_level: int
    """As in Kafka: 9 is lz4's fast compressor, any other level its thorough one, brought into that
    one's range of 3 to 12."""

    compression_zstd_level: int
    """22 is small, negative levels are fast."""

    compression_threads: int
    """How many batches are compressed at once, by the sender's thread and others. 0 takes half of
    the cores that the process may use, with gzip all of them, 1 to 4."""

    partitioner: PartitionerName | Partitioner | None
    """Called as `partitioner(key, all_partitions, available)` for a record that names no partition.
    None or 'murmur2': murmur2 of the key, as Kafka; without a key, one partition per batch, chosen
    by load. 'consistent' (CRC-32) and 'fnv1a' are librdkafka's and send records without a key to
    one partition; with '_random' those, and for 'consistent_random' empty keys too, go as with
    'murmur2'. 'round_robin' gives each partition that has a leader a record in turn. Keys do not
    matter then."""

    partitioner_class: PartitionerName | Partitioner | None
    """Called as `partitioner(key, all_partitions, available)` for a record that names no partition.
    None or 'murmur2': murmur2 of the key, as Kafka; without a key, one partition per batch, chosen
    by load. 'consistent' (CRC-32) and 'fnv1a' are librdkafka's and send records without a key to
    one partition; with '_random' those, and for 'consistent_random' empty keys too, go as with
    'murmur2'. 'round_robin' gives each partition that has a leader a record in turn. Keys do not
    matter then."""

    partitioner_ignore_keys: bool
    """Choose the partition of a record with a key as if it had none."""

    partitioner_adaptive_partitioning_enable: bool
    """Records without a key go less often to partitions whose queue is long."""

    partitioner_availability_timeout_ms: int
    """A broker that takes nothing for this long gets no records without a key; 0 never gives up on
    one. In ms."""

    partitioner_rack_aware: bool
    """Records without a key go to partitions led from `client_rack`, while there are any. Spares
    traffic between zones, and evens nothing out."""

    client_rack: str
    """Rack of this client, as in the brokers' `broker.rack`; required by
    `partitioner_rack_aware`."""

    key_serializer: Callable[..., Any] | None
    """Called with each key, returns bytes; see serializers.md. None: keys are bytes."""

    value_serializer: Callable[..., Any] | None
    """Called with each value, returns bytes; see serializers.md. None: values are bytes."""

    interceptors: Sequence[Interceptor]
    """Objects that receive every record before it is sent, and every outcome."""

    interceptor_classes: Sequence[Interceptor]
    """Objects that receive every record before it is sent, and every outcome."""

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
