"""The parts of the configuration that components take.

A component takes the slice that it uses, so that its constructor shows which settings can affect
it, and a test need not create others. Fields are named as in the table.

They are named tuples, which take a tenth of a dataclass's time to define.

Thread-safety: immutable.
"""

from typing import TYPE_CHECKING, NamedTuple

from kprod.config.address import Address
from kprod.interfaces import PartitionAssignor, Partitioner
from kprod.model import CODECS, Acks, Codec

if TYPE_CHECKING:
    from collections.abc import Callable


class AccumulatorSettings(NamedTuple):
    """Settings of batches and of the memory for them."""

    batch_size: int
    linger_ms: int
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    delivery_timeout_ms: int
    on_buffer_full: str


class CompressionSettings(NamedTuple):
    """Settings of the codec, with each codec's level."""

    compression_type: Codec
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    compression_threads: int

    @property
    def level(self) -> int | None:
        """The chosen codec's level; None where the codec has none."""
        facts = CODECS[self.compression_type]
        return int(getattr(self, facts.level_setting)) if facts.levels else None


class SenderSettings(NamedTuple):
    """Settings of requests: sending, acknowledgement, retries."""

    acks: Acks
    enable_idempotence: bool
    max_in_flight_requests_per_connection: int
    max_request_size: int
    retries: int
    request_timeout_ms: int
    delivery_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


class PartitionerSettings(NamedTuple):
    """Settings that choose a partition for records without one."""

    partitioner: Partitioner | str | None
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    partitioner_rack_aware: bool
    client_rack: str


class NetworkSettings(NamedTuple):
    """Settings of connections, and of the requests and responses on them."""

    client_id: str
    client_dns_lookup: str
    request_timeout_ms: int
    max_in_flight_requests_per_connection: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    fetch_max_bytes: int = 0  # a response's records; 0 for a client that fetches none
    address_filter: "Callable[[str, int], object] | None" = None


class MetadataSettings(NamedTuple):
    """Settings of metadata requests: bootstrap servers, intervals, recovery, creation of topics."""

    bootstrap_servers: tuple[Address, ...]
    metadata_max_age_ms: int
    metadata_max_idle_ms: int
    metadata_recovery_strategy: str
    metadata_recovery_rebootstrap_trigger_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    allow_auto_create_topics: bool
    principal: str = ""


class FetchSettings(NamedTuple):
    """Settings of fetches, and of the memory for fetched records."""

    isolation_level: str
    fetch_buffer_memory: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    check_crcs: bool
    client_rack: str
    value_type: str
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int

    @property
    def reads_committed(self) -> bool:
        """Whether records of open and aborted transactions are skipped."""
        return self.isolation_level == "read_committed"


class GroupSettings(NamedTuple):
    """Settings of a member of a group, and of its commits."""

    group_id: str
    group_instance_id: str
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    partition_assignment_strategy: tuple[str | PartitionAssignor, ...]
    enable_auto_commit: bool
    auto_offset_store: bool
    auto_commit_interval_ms: int
    client_rack: str
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
