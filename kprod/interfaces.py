"""The protocols for objects that an application provides, and that kprod calls.

All are Protocols: nothing needs to be inherited or registered. Serializers and partitioners run in
the thread that calls `send`, interceptors' acknowledgements in the sender thread, token providers
in a thread of their own, and none of them while a lock of kprod is held.

Thread-safety: an implementation is called from every thread that sends.
Source: kafka-python and aiokafka for the callables' shapes; KIP-42 for interceptors; KIP-255 for
tokens.
"""

from collections.abc import Awaitable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, Self

from kprod.model import Header, OffsetAndMetadata, RecordMetadata, TopicPartition
from kprod.secret import Secret


class OutgoingRecord(NamedTuple):
    """A record that is passed to `send`, before it is serialized.

    Attributes:
        topic: The record's topic.
        value: The value, as given to `send`.
        key: The key, as given to `send`.
        headers: Headers in order; keys may repeat.
        partition: 0-based; None lets the partitioner choose.
        timestamp_ms: Milliseconds since 1970; None takes the time of the send.
    """

    topic: str
    value: Any = None
    key: Any = None
    headers: tuple[Header, ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class Serializer(Protocol):
    """Turns a key or a value into bytes.

    One that also takes `ctx` or `context`, or needs a second argument, is given a
    `kprod.serialization.SerializationContext`.
    """

    def __call__(self, value: Any, /) -> bytes | bytearray | memoryview | None:  # noqa: ANN401
        """Serialize.

        Args:
            value: Value that the application passed to `send`.

        Returns:
            The bytes, copied before `send` returns; None for null.
        """


class Partitioner(Protocol):
    """Chooses the partition of a record that names none."""

    def __call__(
        self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int], /
    ) -> int:
        """Choose.

        Args:
            key: The serialized key.
            all_partitions: Every partition of the topic, ascending.
            available: Partitions that have a leader now; may be empty.

        Returns:
            A member of `all_partitions`.
        """


class Interceptor(Protocol):
    """Receives every record before it is sent, and every outcome.

    An exception raised here is logged and ignored.
    """

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        """Return the record to send, the same or another; in the caller's thread."""

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Process an accepted record's outcome, in the sender's thread; one argument is None."""

    def close(self) -> None:
        """Release what it holds; called once, after the last acknowledgement."""


class Deserializer(Protocol):
    """Turns the bytes of a key or a value into what the application uses.

    One that also takes `ctx` or `context`, or needs a second argument, is given a
    `kprod.serialization.SerializationContext`.
    """

    def __call__(self, value: Any, /) -> Any:  # noqa: ANN401 - the application's own
        """Deserialize.

        Args:
            value: Bytes, or a memoryview with `value_type="memoryview"`; never None.

        Returns:
            The value that the record gets.
        """


class ConsumerInterceptor(Protocol):
    """Sees the records that a consumer returns; an exception is logged and ignored."""

    def on_consume(self, records: Sequence[Any]) -> Sequence[Any]:
        """Return the records to hand out, at most one for each; in the thread that polls.

        They have the offsets of the given records, in the same order; other offsets, and objects
        without `offset`, count as a failure. Records that a loop was left before come again, as
        they were read.
        """

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Process offsets that the group's coordinator has confirmed; optional.

        Called for each commit of this consumer, automatic ones included, in the thread that polls,
        commits or closes; the mapping is the method's own.
        """

    def close(self) -> None:
        """Release what it holds; called once, at the end."""


class GroupMember(NamedTuple):
    """One member of a consumer group, as the member that assigns partitions sees it.

    Attributes:
        member_id: Id of the member, unique in the group.
        instance_id: Its `group_instance_id`; None for a dynamic member.
        topics: The topics that it subscribes to.
        owned: Partitions that it has now; empty for members that give up all before a rebalance.
        generation: The generation in which it got them; −1 if unknown.
        rack: Its `client_rack`; None for none.
        assignor_bytes: Bytes of its assignor; None for none.
    """

    member_id: str
    instance_id: str | None = None
    topics: tuple[str, ...] = ()
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    rack: str | None = None
    assignor_bytes: bytes | None = None


class PartitionAssignor(Protocol):
    """Distributes the partitions of a group's topics over its members.

    Attributes:
        name: The name that all members of the group must use for this assignor.
        is_cooperative: Whether a member may keep its partitions during a rebalance. Then a
            partition that moves must be left out of the assignment until its old owner has given it
            up, which takes a second rebalance (KIP-429).
    """

    name: str
    is_cooperative: bool

    def assignor_bytes(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return bytes for the `GroupMember` of this member.

        Args:
            owned: The partitions of its last assignment.
            generation: The generation of that assignment; −1 before the first.

        Returns:
            The bytes, or None.
        """

    def assign(
        self, members: Sequence[GroupMember], topics: Mapping[str, Sequence[frozenset[str]]]
    ) -> Mapping[str, Sequence[TopicPartition]]:
        """Distribute the partitions; called in the member that leads the group.

        Args:
            members: All members.
            topics: The racks of each partition's replicas, by topic; the position is the partition
                number. Topics that do not exist are missing.

        Returns:
            Partitions by member id; a member that is missing gets none.
        """


class RebalanceListener(Protocol):
    """Is told by `Consumer.poll` and by iteration which partitions a member gets and loses.

    Each method is optional, and runs in the thread that polls; it may commit, seek, pause and close
    the consumer. What it raises leaves that `poll`, after the member has gone through the
    rebalance.
    """

    def on_assigned(self, consumer: Any, partitions: Sequence[TopicPartition]) -> None:  # noqa: ANN401
        """Process new partitions, after each rebalance; a `seek` takes effect before a record."""

    def on_revoked(self, consumer: Any, partitions: Sequence[TopicPartition]) -> None:  # noqa: ANN401
        """Process the loss of partitions that are still this member's until the method returns.

        With `enable_auto_commit`, the positions were committed before.
        """

    def on_lost(self, consumer: Any, partitions: Sequence[TopicPartition]) -> None:  # noqa: ANN401
        """Process the loss of partitions that may be another member's already.

        Commits fail. Without this method, `on_revoked` is called.
        """


class AsyncRebalanceListener(Protocol):
    """Is told by the reads of an `AsyncConsumer` which partitions a member gets and loses.

    As `RebalanceListener`; the methods run in the event loop, and may be coroutine functions, which
    the read waits for.
    """

    def on_assigned(
        self,
        consumer: Any,  # noqa: ANN401, ARG002 - for a subclass
        partitions: Sequence[TopicPartition],  # noqa: ARG002 - likewise
    ) -> Awaitable[None] | None:
        """Process new partitions, after each rebalance; a `seek` takes effect before a record."""
        return None  # each method is optional

    def on_revoked(
        self,
        consumer: Any,  # noqa: ANN401, ARG002 - for a subclass
        partitions: Sequence[TopicPartition],  # noqa: ARG002 - likewise
    ) -> Awaitable[None] | None:
        """Process the loss of partitions that are still this member's until the method returns."""
        return None  # each method is optional

    def on_lost(
        self,
        consumer: Any,  # noqa: ANN401, ARG002 - for a subclass
        partitions: Sequence[TopicPartition],  # noqa: ARG002 - likewise
    ) -> Awaitable[None] | None:
        """Process the loss of partitions that may be another member's already."""
        return None  # each method is optional


class _TokenFields(NamedTuple):
    value: Secret
    expires_at: float | None
    principal: str
    extensions: Mapping[str, str]


class Token(_TokenFields):
    """A bearer token, for SASL's OAUTHBEARER.

    Attributes:
        value: The token itself.
        expires_at: Seconds since 1970; None if that is not known.
        principal: The token's user, for texts; the broker reads it from the token.
        extensions: Further fields of the login (RFC 7628), such as Confluent Cloud's
            `logicalCluster`.
    """

    __slots__ = ()

    def __new__(
        cls,
        value: str | Secret,
        expires_at: float | None = None,
        principal: str = "",
        extensions: Mapping[str, str] = MappingProxyType({}),
    ) -> Self:
        """Wrap a token; a text becomes a `Secret`.

        Args:
            value: The token itself.
            expires_at: Seconds since 1970.
            principal: The user.
            extensions: Further fields of the login.

        Returns:
            It, unchecked.
        """
        kept = value if isinstance(value, Secret) else Secret(value)
        return super().__new__(cls, kept, expires_at, principal, extensions)


class TokenProvider(Protocol):
    """Gives bearer tokens; a function of no arguments that returns the same is as good.

    kprod calls it in a separate thread, never two calls at a time: before the first login, again
    from 80 % of a token's lifetime on, and immediately after a broker has rejected a token. An
    exception fails the login that needs the token.
    """

    def token(self) -> "TokenResult | Awaitable[TokenResult]":
        """Return a token that is valid now.

        Returns:
            A `Token`; or its text, if it is a JWT with an expiry; or a tuple of text and expiry in
            seconds since 1970, optionally with principal and extensions.
        """


TokenResult = Token | str | tuple[Any, ...]
