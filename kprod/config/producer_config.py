"""The table of settings: every name, default, bound and meaning, once.

Its first half, what any client has, is inherited. A row is here only if something uses it. The page
`docs/configuration.md` is generated from this table, and the errors for wrong values take their
bounds and reasons from it.

Thread-safety: immutable.
Source: Kafka's ProducerConfig and CommonClientConfigs (clients 4.3.1), KIP-19, KIP-91, KIP-390,
KIP-580, KIP-601, KIP-794; defaults that differ from Kafka's say why in their text.
"""

from collections.abc import Mapping
from typing import Any, Self

from kprod.config.client_config import DELAY, TIMEOUT, ClientConfig
from kprod.config.kinds import (
    AcksKind,
    Choice,
    ClientId,
    CodecKind,
    Flag,
    Function,
    InterceptorList,
    Level,
    Whole,
)
from kprod.config.reading import read_settings
from kprod.config.rules import settle
from kprod.config.security_config import SecurityConfig, is_security_name
from kprod.config.setting import Group
from kprod.config.settings_slices import (
    AccumulatorSettings,
    CompressionSettings,
    PartitionerSettings,
    SenderSettings,
)
from kprod.config.settings_table import MISSING, field, row, rows
from kprod.interfaces import Interceptor, Partitioner, Serializer
from kprod.model import CODECS, Acks, Codec

_FOREVER = 2**31 - 1


def _level(codec: Codec, meaning: str) -> int:
    """The row of a codec's level, from the codec's facts."""
    facts = CODECS[codec]
    minimum, maximum, default, reason = facts.levels
    bounds = Whole(minimum=minimum, maximum=maximum, reason=reason)
    is_within = minimum <= default <= maximum
    kind = bounds if is_within else Level(levels=bounds, default_marker=default)
    name = facts.level_setting.replace("_", ".")
    setting: int = field(default=default, metadata=row(name, kind, Group.COMPRESSION, meaning))
    return setting


class ProducerConfig(ClientConfig):
    """Every setting of a producer, checked; made by `parse`.

    Thread-safety: immutable.
    """

    acks: Acks = field(
        default=Acks.ALL,
        metadata=row(
            "acks",
            AcksKind(),
            Group.DELIVERY,
            "Replicas that must have a batch before the broker responds: all in-sync ones, "
            "the leader alone, or nobody (0: no response, offsets are −1).",
        ),
    )
    enable_idempotence: bool = field(
        default=True,
        metadata=row(
            "enable.idempotence",
            Flag(),
            Group.DELIVERY,
            "No record twice and none out of order, whatever is retried. Switched off "
            "(with a line in the log) by `acks` other than all or `retries=0`, "
            "unless it is asked for: then those are an error.",
        ),
    )
    delivery_timeout_ms: int = field(
        default=120_000,
        metadata=row(
            "delivery.timeout.ms",
            TIMEOUT,
            Group.DELIVERY,
            "From `send` to the outcome, at the most. At least `linger_ms` + "
            "`request_timeout_ms`: those of the three that were not set give way (with a line in "
            "the log), the request timeout first; three set values that contradict each other are "
            "an error.",
            unit="ms",
        ),
    )
    retries: int = field(
        default=_FOREVER,
        metadata=row(
            "retries",
            Whole(minimum=0, reason="0 means one attempt; the delivery timeout ends all"),
            Group.DELIVERY,
            "Attempts after the first; better left alone, as `delivery_timeout_ms` is "
            "the limit that means something.",
        ),
    )
    linger_ms: int = field(
        default=5,
        metadata=row(
            "linger.ms",
            DELAY,
            Group.BATCHING,
            "A batch that is not full waits this long for more records.",
            unit="ms",
        ),
    )
    batch_size: int = field(
        default=1_000_000,
        metadata=row(
            "batch.size",
            Whole(minimum=0, reason="0 makes each record a batch of its own"),
            Group.BATCHING,
            "A batch is full at this many bytes before compression. A limit, not an "
            "allocation (Kafka's 16,384 is both): memory follows the records. Where it is "
            "not given and `max_request_size` is smaller, that is the limit.",
            unit="bytes",
        ),
    )
    buffer_memory: int = field(
        default=64 * 1024 * 1024,
        metadata=row(
            "buffer.memory",
            Whole(
                minimum=32 * 1024,
                maximum=2**40,
                reason="less than 32 KiB cannot hold one batch's first two pieces, "
                "more than 1 TiB is a slip of the pen",
            ),
            Group.BATCHING,
            "Memory for records that are not delivered yet.",
            unit="bytes",
        ),
    )
    on_buffer_full: str = field(
        default="block",
        metadata=row(
            None,
            Choice(choices=("block", "raise")),
            Group.BATCHING,
            "Whether `send` waits for memory, up to `max_block_ms`, or raises "
            "`BufferTimeout` at once.",
        ),
    )
    max_block_ms: int = field(
        default=60_000,
        metadata=row(
            "max.block.ms",
            DELAY,
            Group.BATCHING,
            "The longest that one `send` waits, for metadata and memory together.",
            unit="ms",
        ),
    )
    max_request_size: int = field(
        default=1_048_576,
        metadata=row(
            "max.request.size",
            Whole(minimum=1, reason="a request's size is a signed 32-bit number"),
            Group.BATCHING,
            "The largest request, and the largest record before compression.",
            unit="bytes",
        ),
    )
    compression_type: Codec = field(
        default=Codec.NONE,
        metadata=row(
            "compression.type", CodecKind(), Group.COMPRESSION, "Codec that compresses batches."
        ),
    )
    compression_gzip_level: int = _level(
        Codec.GZIP, "1 is fast, 9 is small, −1 is zlib's choice (6)."
    )
    compression_lz4_level: int = _level(
        Codec.LZ4,
        "As in Kafka: 9 is lz4's fast compressor, any other level its thorough one, "
        "brought into that one's range of 3 to 12.",
    )
    compression_zstd_level: int = _level(Codec.ZSTD, "22 is small, negative levels are fast.")
    compression_threads: int = field(
        default=0,
        metadata=row(
            None,
            Whole(
                minimum=0,
                maximum=64,
                reason="the sender's thread compresses, too, so that 1 starts no other",
            ),
            Group.COMPRESSION,
            "How many batches are compressed at once, by the sender's thread and others. 0 takes "
            "half of the cores that the process may use, with gzip all of them, 1 to 4.",
        ),
    )
    partitioner: Partitioner | str | None = field(
        default=None,
        metadata=row(
            "partitioner.class",
            Function(
                names=(
                    "murmur2",
                    "consistent",
                    "consistent_random",
                    "fnv1a",
                    "fnv1a_random",
                    "round_robin",
                )
            ),
            Group.PARTITIONING,
            "Called as `partitioner(key, all_partitions, available)` for a record that "
            "names no partition. None or 'murmur2': murmur2 of the key, as Kafka; "
            "without a key, one partition per batch, chosen by load. 'consistent' (CRC-32) and "
            "'fnv1a' are librdkafka's and send records without a key to one partition; with "
            "'_random' those, and for 'consistent_random' empty keys too, go as with 'murmur2'. "
            "'round_robin' gives each partition that has a leader a record in turn. "
            "Keys do not matter then.",
        ),
    )
    partitioner_ignore_keys: bool = field(
        default=False,
        metadata=row(
            "partitioner.ignore.keys",
            Flag(),
            Group.PARTITIONING,
            "Choose the partition of a record with a key as if it had none.",
        ),
    )
    partitioner_adaptive_partitioning_enable: bool = field(
        default=True,
        metadata=row(
            "partitioner.adaptive.partitioning.enable",
            Flag(),
            Group.PARTITIONING,
            "Records without a key go less often to partitions whose queue is long.",
        ),
    )
    partitioner_availability_timeout_ms: int = field(
        default=0,
        metadata=row(
            "partitioner.availability.timeout.ms",
            DELAY,
            Group.PARTITIONING,
            "A broker that takes nothing for this long gets no records without a key; "
            "0 never gives up on one.",
            unit="ms",
        ),
    )
    partitioner_rack_aware: bool = field(
        default=False,
        metadata=row(
            "partitioner.rack.aware",
            Flag(),
            Group.PARTITIONING,
            "Records without a key go to partitions led from `client_rack`, while there are "
            "any. Spares traffic between zones, and evens nothing out.",
        ),
    )
    client_rack: str = field(
        default="",
        metadata=row(
            "client.rack",
            ClientId(),
            Group.PARTITIONING,
            "Rack of this client, as in the brokers' `broker.rack`; required by "
            "`partitioner_rack_aware`.",
        ),
    )
    key_serializer: Serializer | None = field(
        default=None,
        metadata=row(
            "key.serializer",
            Function(),
            Group.PARTITIONING,
            "Called with each key, returns bytes; see serializers.md. None: keys are bytes.",
        ),
    )
    value_serializer: Serializer | None = field(
        default=None,
        metadata=row(
            "value.serializer",
            Function(),
            Group.PARTITIONING,
            "Called with each value, returns bytes; see serializers.md. None: values are bytes.",
        ),
    )

    interceptors: tuple[Interceptor, ...] = field(
        default=(),
        metadata=row(
            "interceptor.classes",
            InterceptorList(),
            Group.PARTITIONING,
            "Objects that receive every record before it is sent, and every outcome.",
        ),
    )

    @classmethod
    def parse(cls, settings: Mapping[str, object]) -> Self:
        """Check settings as an application wrote them.

        Args:
            settings: Names as here (`linger_ms`) or as in Kafka (`linger.ms`); numbers and flags
                also as texts ("5", "true"), as in a properties file.

        Returns:
            The configuration, complete and consistent.

        Raises:
            ConfigError: A setting is unknown, wrong, out of bounds, given twice with different
                values, missing, or contradicts another; the text says which and what to do.
        """
        plain = {name: value for name, value in settings.items() if not is_security_name(name)}
        secured = {name: value for name, value in settings.items() if is_security_name(name)}
        given = read_settings(cls, plain)
        defaults: dict[str, Any] = {
            name: default for name, _, default in rows(cls) if default is not MISSING
        }
        config = cls(**settle(given, defaults), security=SecurityConfig.parse(secured))
        config.check_cleartext()
        return config

    def accumulator_settings(self) -> AccumulatorSettings:
        """Return what the accumulator uses."""
        return self.part(AccumulatorSettings)

    def compression_settings(self) -> CompressionSettings:
        """Return the codec and its level."""
        return self.part(CompressionSettings)

    def sender_settings(self) -> SenderSettings:
        """Return what the sender uses."""
        return self.part(SenderSettings)

    def partitioner_settings(self) -> PartitionerSettings:
        """Return what the choice of partitions uses."""
        return self.part(PartitionerSettings)
