"""The table's first half: settings of anything that talks to a cluster.

The bootstrap servers, connections, timeouts and retries. The division is Kafka's own, between its
CommonClientConfigs and its ProducerConfig.

Thread-safety: immutable.
Source: Kafka's CommonClientConfigs (clients 4.3.1), KIP-19, KIP-580, KIP-601.
"""

from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

from kprod.config.address import Address
from kprod.config.kinds import AddressList, Choice, ClientId, Flag, Function, Level, Whole
from kprod.config.security_config import SecurityConfig
from kprod.config.security_rules import check_cleartext
from kprod.config.setting import Group
from kprod.config.settings_slices import MetadataSettings, NetworkSettings
from kprod.config.settings_table import Table, field, row

if TYPE_CHECKING:
    from collections.abc import Callable

_SliceT = TypeVar("_SliceT", bound=NamedTuple)

DELAY = Whole(
    minimum=0, reason="a delay is not negative; the maximum is 24 days, in a 32-bit number"
)
TIMEOUT = Whole(minimum=1, reason="0 ms would leave no time; the maximum is 24 days")
_SOCKET_BUFFER = Whole(minimum=-1, reason="−1 leaves it to the operating system")


class ClientConfig(Table):
    """Settings of a client, whatever it does.

    Thread-safety: immutable.
    """

    # A client that fetches has a setting of this name, which bounds what it accepts.
    fetch_max_bytes: ClassVar[int] = 0

    bootstrap_servers: tuple[Address, ...] = field(
        metadata=row(
            "bootstrap.servers",
            AddressList(),
            Group.CLUSTER,
            "Brokers to ask first; the cluster names the others. Required.",
        )
    )
    client_id: str = field(
        default="",
        metadata=row(
            "client.id",
            ClientId(),
            Group.CLUSTER,
            "The name that brokers see in requests, logs and quotas; "
            "empty: `producer-1`, `producer-2`, … or `consumer-1`, … in the order of making.",
        ),
    )
    client_dns_lookup: str = field(
        default="use_all_dns_ips",
        metadata=row(
            "client.dns.lookup",
            Choice(choices=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
            Group.CLUSTER,
            "Try every address of a name in turn, or first replace each bootstrap name "
            "by the canonical names of its addresses.",
        ),
    )
    metadata_max_age_ms: int = field(
        default=300_000,
        metadata=row(
            "metadata.max.age.ms",
            TIMEOUT,
            Group.CLUSTER,
            "Cluster metadata is fetched again at this age, even if nothing went wrong.",
            unit="ms",
        ),
    )
    metadata_max_idle_ms: int = field(
        default=300_000,
        metadata=row(
            "metadata.max.idle.ms",
            Whole(minimum=5_000, reason="below 5 s a quiet topic would be asked for at each send"),
            Group.CLUSTER,
            "A topic that is not sent to for this long is no longer asked about.",
            unit="ms",
        ),
    )
    metadata_recovery_strategy: str = field(
        default="rebootstrap",
        metadata=row(
            "metadata.recovery.strategy",
            Choice(choices=("rebootstrap", "none")),
            Group.CLUSTER,
            "Action when no known broker can be used: `rebootstrap` starts again from "
            "`bootstrap_servers`; `none` keeps trying the known ones.",
        ),
    )
    metadata_recovery_rebootstrap_trigger_ms: int = field(
        default=300_000,
        metadata=row(
            "metadata.recovery.rebootstrap.trigger.ms",
            DELAY,
            Group.CLUSTER,
            "Bootstrap again from `bootstrap_servers` when no broker "
            "has said anything about the cluster for this long.",
            unit="ms",
        ),
    )
    allow_auto_create_topics: bool = field(
        default=True,
        metadata=row(
            "allow.auto.create.topics",
            Flag(),
            Group.CLUSTER,
            "Let the broker create an unknown topic, if its own settings allow it.",
        ),
    )
    request_timeout_ms: int = field(
        default=30_000,
        metadata=row(
            "request.timeout.ms",
            TIMEOUT,
            Group.DELIVERY,
            "Wait for one response; then the connection is closed and the request retried.",
            unit="ms",
        ),
    )
    retry_backoff_ms: int = field(
        default=100,
        metadata=row(
            "retry.backoff.ms",
            DELAY,
            Group.DELIVERY,
            "Wait before the first retry; it doubles with each, ±20 %.",
            unit="ms",
        ),
    )
    retry_backoff_max_ms: int = field(
        default=1_000,
        metadata=row(
            "retry.backoff.max.ms",
            DELAY,
            Group.DELIVERY,
            "The longest wait between retries.",
            unit="ms",
        ),
    )
    max_in_flight_requests_per_connection: int = field(
        default=5,
        metadata=row(
            "max.in.flight.requests.per.connection",
            Whole(
                minimum=1,
                maximum=5,
                reason="a broker remembers the last five batches of a producer, "
                "and tells duplicates from gaps by them",
            ),
            Group.DELIVERY,
            "Requests sent to one broker and not answered yet.",
        ),
    )
    reconnect_backoff_ms: int = field(
        default=50,
        metadata=row(
            "reconnect.backoff.ms",
            DELAY,
            Group.NETWORK,
            "Wait before connecting again; it doubles with each failure, ±20 %.",
            unit="ms",
        ),
    )
    reconnect_backoff_max_ms: int = field(
        default=1_000,
        metadata=row(
            "reconnect.backoff.max.ms",
            DELAY,
            Group.NETWORK,
            "The longest wait before connecting again.",
            unit="ms",
        ),
    )
    socket_connection_setup_timeout_ms: int = field(
        default=10_000,
        metadata=row(
            "socket.connection.setup.timeout.ms",
            TIMEOUT,
            Group.NETWORK,
            "Wait for a connection to stand; it doubles with each failure, ±20 %.",
            unit="ms",
        ),
    )
    socket_connection_setup_timeout_max_ms: int = field(
        default=30_000,
        metadata=row(
            "socket.connection.setup.timeout.max.ms",
            TIMEOUT,
            Group.NETWORK,
            "The longest wait for a connection to stand.",
            unit="ms",
        ),
    )
    connections_max_idle_ms: int = field(
        default=540_000,
        metadata=row(
            "connections.max.idle.ms",
            Level(
                levels=Whole(minimum=1_000, reason="a connection takes time to make"),
                default_marker=-1,
            ),
            Group.NETWORK,
            "A connection that carries nothing for this long is closed (just below the "
            "ten minutes after which a broker does); −1 never closes one.",
            unit="ms",
        ),
    )
    send_buffer_bytes: int = field(
        default=-1,
        metadata=row(
            "send.buffer.bytes",
            _SOCKET_BUFFER,
            Group.NETWORK,
            "The socket's send buffer (SO_SNDBUF); −1 lets the system grow it as needed. Kafka's "
            "131,072 takes an eighth of a batch at a time.",
            unit="bytes",
        ),
    )
    receive_buffer_bytes: int = field(
        default=32_768,
        metadata=row(
            "receive.buffer.bytes",
            _SOCKET_BUFFER,
            Group.NETWORK,
            "The socket's receive buffer (SO_RCVBUF); −1 leaves it alone.",
            unit="bytes",
        ),
    )

    address_filter: "Callable[[str, int], object] | None" = field(
        default=None,
        metadata=row(
            None,
            Function(),
            Group.SECURITY,
            "Called as `address_filter(host, port)` before a connection to an address that the "
            "cluster advertises, in a thread of kprod's own, which it must not block; if the "
            "result is false, the client does not connect to it. None: every address is allowed.",
        ),
    )

    security: SecurityConfig = field(default=SecurityConfig())

    @property
    def principal(self) -> str:
        """User and mechanism, for texts; empty without a login."""
        return self.security.principal

    def check_cleartext(self) -> None:
        """Reject a login whose password or token would be sent unencrypted to other machines.

        Raises:
            ConfigError: It would be, and `sasl_allow_cleartext` is not set.
        """
        security = self.security
        if security.uses_sasl and not (security.uses_tls or security.sasl_allow_cleartext):
            hosts = [address.host for address in self.bootstrap_servers]
            check_cleartext(security.sasl_mechanism, hosts)

    def network_settings(self) -> NetworkSettings:
        """Return what connections use."""
        return self.part(NetworkSettings)

    def metadata_settings(self) -> MetadataSettings:
        """Return what the upkeep of metadata uses."""
        return self.part(MetadataSettings)

    def part(self, slice_class: type[_SliceT]) -> _SliceT:
        """Return the settings that a slice names.

        Args:
            slice_class: A named tuple whose fields are named as settings here.
        """
        return slice_class._make(getattr(self, name) for name in slice_class._fields)
