"""Fault injection: which fault, for which requests, how often.

A fault is armed for an API and applies to its next requests. `skip` lets a number of requests pass
first, so that the n-th is hit; `times` is the number of requests to hit; `broker` restricts it to
one broker. Several faults can hit one request: a delayed failure is a delay and a failure.

A client cannot distinguish a fault before its request was processed from one after. Faults of the
response take `handled`: with True the broker processes the request first (the batch is in the log)
and then spoils the response.

Thread-safety: `FaultControl` from any thread; `FaultBook` on the broker's thread.
Source: kprod's own; requests of users of franz-go's kfake and librdkafka's mock cluster.
"""

import dataclasses
import enum
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypedDict, Unpack

from kprod.broker.security.security_faults import SecurityFaults
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import error_for

_API_KEYS = frozenset(ApiKey)


class FaultKind(enum.Enum):
    """The kinds of injected faults."""

    FAIL = "answered with an error code"
    DELAY = "answered late"
    DROP = "never answered"
    DISCONNECT = "connection closed"
    CUT = "answer cut off, connection closed"
    REWRITE = "answer's bytes changed"
    REWRITE_REQUEST = "request's bytes changed"
    DUPLICATE = "handled twice"
    OMIT = "a partition left out"
    EMPTY = "every partition left out"


@dataclasses.dataclass(slots=True, kw_only=True)
class Fault:
    """An armed fault; `skip` and `times` count down.

    Attributes:
        kind: The kind of fault.
        api_key: The API whose requests it hits.
        skip: Requests to let pass first.
        times: Requests to hit.
        broker: Id of the only broker concerned; None for all.
        handled: Whether the request is processed before its response is spoiled.
        error_code: The error code, for FAIL.
        delay_ms: The delay, for DELAY.
        at_byte: For CUT: the number of bytes of the response that are sent, including its size
            field.
        function: For REWRITE and REWRITE_REQUEST: maps a frame without its size field to another.
        hit_count: Number of requests hit.
    """

    kind: FaultKind
    api_key: int
    skip: int = 0
    times: int = 1
    broker: int | None = None
    handled: bool = False
    error_code: int = 0
    delay_ms: int = 0
    at_byte: int = 0
    function: Callable[[bytes], bytes] | None = None
    hit_count: int = 0

    @property
    def text(self) -> str:
        """Describe the fault, for example "PRODUCE never answered, times=1"."""
        words = f"{ApiKey(self.api_key).name} {self.kind.value}"
        if self.kind is FaultKind.FAIL:
            words += f" {error_for(self.error_code).name}"
        where = {"times": self.times, "skip": self.skip or None, "broker": self.broker}
        told = [f"{name}={value}" for name, value in where.items() if value is not None]
        return ", ".join([words, *told])


class FaultBook:
    """The armed faults of a cluster."""

    __slots__ = ("_armed",)

    def __init__(self) -> None:
        """Start with no faults."""
        self._armed: list[Fault] = []

    def arm(self, fault: Fault) -> None:
        """Add a fault."""
        self._armed.append(fault)

    def clear(self) -> None:
        """Remove all faults."""
        self._armed.clear()

    @property
    def armed(self) -> Sequence[Fault]:
        """The faults that have requests left to hit."""
        return tuple(self._armed)

    def take(self, api_key: int, node_id: int) -> list[Fault]:
        """Return the faults for a request, at most one of each kind, and count them down."""
        if not self._armed:
            return []
        hit: dict[FaultKind, Fault] = {}
        for fault in self._armed:
            if fault.api_key != api_key or fault.broker not in {None, node_id}:
                continue
            if fault.kind in hit:
                continue
            if fault.skip > 0:
                fault.skip -= 1
                continue
            fault.times -= 1
            fault.hit_count += 1
            hit[fault.kind] = fault
        self._armed = [fault for fault in self._armed if fault.times > 0]
        return list(hit.values())


class Where(TypedDict, total=False):
    """Selects the requests of an API that a fault hits.

    Attributes:
        skip: Requests to let pass first; 0 if not given.
        broker: Id of the only broker concerned; all if not given.
    """

    skip: int
    broker: int


class _How(TypedDict, total=False):
    """The parameters of a fault, as in `Fault`."""

    handled: bool
    error_code: int
    delay_ms: int
    at_byte: int
    function: Callable[[bytes], bytes]


class FaultHost(Protocol):
    """The parts of the cluster that faults act upon.

    Attributes:
        faults: The faults of requests.
        security_faults: The injected faults of TLS and logins.
    """

    faults: FaultBook
    security_faults: SecurityFaults

    def stall(self, node_id: int, stalled: bool) -> None:  # noqa: FBT001 - a callback's argument
        """Stall (True) or resume a broker."""

    def expire_sessions(self) -> None:
        """Expire all sessions."""

    def fail_directory(self, path: str, after_ops: int) -> None:
        """Let one of the logs' directories fail after some calls of the operating system."""


class FaultControl:  # noqa: PLR0904 - one method for each fault
    """The public methods for fault injection: `cluster.faults`.

    In every method `api` is the API key, and `times` the number of requests to hit, at least 1.

    Thread-safety: any thread.
    """

    __slots__ = ("_book", "_call", "_host")

    def __init__(self, host: FaultHost, *, call: Callable[[Callable[[], object]], object]) -> None:
        """Create the public object of a cluster's faults.

        Args:
            host: The cluster.
            call: Runs a function on the broker's thread.
        """
        self._host = host
        self._book = host.faults
        self._call = call

    def fail_next(
        self,
        api: int,
        error_code: int,
        times: int = 1,
        *,
        handled: bool = False,
        **where: Unpack[Where],
    ) -> None:
        """Respond with an error code, set wherever the response has one.

        A Produce request with acks=0, which gets no response, has its connection closed instead.

        Args:
            api: The API key.
            error_code: The error code of the protocol.
            times: Number of requests, at least 1.
            handled: Process the request first, so that the client only believes that it failed. A
                partition that the broker itself rejects keeps the broker's error.
            **where: Restricts the requests.
        """
        self._arm(FaultKind.FAIL, api, times, where, error_code=int(error_code), handled=handled)

    def delay(
        self,
        api: int,
        delay_ms: int,
        times: int = 1,
        *,
        handled: bool = False,
        **where: Unpack[Where],
    ) -> None:
        """Delay requests by `delay_ms`; with `handled`, delay the response instead."""
        self._arm(FaultKind.DELAY, api, times, where, delay_ms=delay_ms, handled=handled)

    def drop(
        self, api: int, times: int = 1, *, handled: bool = False, **where: Unpack[Where]
    ) -> None:
        """Never respond, neither to these requests nor to later ones on the same connection."""
        self._arm(FaultKind.DROP, api, times, where, handled=handled)

    def disconnect(
        self, api: int, times: int = 1, *, handled: bool = False, **where: Unpack[Where]
    ) -> None:
        """Close the connection instead of responding."""
        self._arm(FaultKind.DISCONNECT, api, times, where, handled=handled)

    def duplicate(self, api: int, times: int = 1, **where: Unpack[Where]) -> None:
        """Process requests twice, as if the network had repeated them; one response is sent."""
        self._arm(FaultKind.DUPLICATE, api, times, where)

    def omit(
        self, api: int, times: int = 1, *, handled: bool = False, **where: Unpack[Where]
    ) -> None:
        """Remove the first partition from the request, or, with `handled`, from the response."""
        self._arm(FaultKind.OMIT, api, times, where, handled=handled)

    def empty(
        self, api: int, times: int = 1, *, handled: bool = False, **where: Unpack[Where]
    ) -> None:
        """Omit all partitions from the request, or with `handled` from the response."""
        self._arm(FaultKind.EMPTY, api, times, where, handled=handled)

    def cut(self, api: int, at_byte: int, times: int = 1, **where: Unpack[Where]) -> None:
        """Process requests, send `at_byte` bytes of the response, and close the connection."""
        self._arm(FaultKind.CUT, api, times, where, at_byte=at_byte)

    def rewrite(
        self,
        api: int,
        function: Callable[[bytes], bytes],
        times: int = 1,
        **where: Unpack[Where],
    ) -> None:
        """Change the bytes of responses; `function` gets the frame from the correlation id on."""
        self._arm(FaultKind.REWRITE, api, times, where, function=function)

    def rewrite_request(
        self,
        api: int,
        function: Callable[[bytes], bytes],
        times: int = 1,
        **where: Unpack[Where],
    ) -> None:
        """Change the bytes of requests before they are decoded; `function` gets header and body."""
        self._arm(FaultKind.REWRITE_REQUEST, api, times, where, function=function)

    def stall(self, broker: int) -> None:
        """Stall a broker: its connections stay open, but it neither reads nor writes."""
        self._call(lambda: self._host.stall(broker, True))  # noqa: FBT003 - stalled or not

    def resume(self, broker: int) -> None:
        """Let a stalled broker continue."""
        self._call(lambda: self._host.stall(broker, False))  # noqa: FBT003 - stalled or not

    def reject_logins(self, times: int = 1, message: str = "Authentication failed") -> None:
        """Fail the next logins, valid or not, with SASL_AUTHENTICATION_FAILED and a text.

        For a slow login use `delay` with `ApiKey.SASL_AUTHENTICATE`, for one that never ends
        `drop`.

        Args:
            times: Number of logins.
            message: The error text.
        """
        self._call(lambda: self._host.security_faults.rejections.extend([message] * times))

    def break_handshakes(self, at_byte: int, times: int = 1) -> None:
        """Close the next TLS connections in the middle of their handshake.

        Args:
            at_byte: Number of the broker's bytes sent before; a whole handshake has about 2,000.
            times: Number of connections.
        """
        self._call(lambda: self._host.security_faults.handshake_cuts.extend([at_byte] * times))

    def tamper(self, times: int = 1) -> None:
        """Flip a bit of the next TLS records sent, so that the client must reject them.

        Args:
            times: Number of records.
        """

        def arm() -> None:
            self._host.security_faults.tampered_count += times

        self._call(arm)

    def expire_sessions(self) -> None:
        """Expire the sessions of all logged-in clients now."""
        self._call(self._host.expire_sessions)

    def fail_directory(self, path: str | Path, *, after_ops: int = 0) -> None:
        """Let one of the cluster's directories fail, as a broken disk does.

        Its partitions go offline: they have no leader and answer KAFKA_STORAGE_ERROR until the
        cluster is started again. Partitions in other directories are served as before.

        Args:
            path: One of `data_dirs`, or `data_dir`.
            after_ops: Number of system calls there that succeed before, 0 or more.

        Raises:
            ValueError: It is none of the cluster's directories.
        """
        self._call(lambda: self._host.fail_directory(str(Path(path).absolute()), after_ops))

    def clear(self) -> None:
        """Remove all faults; a stalled broker stays stalled."""
        self._call(self._book.clear)
        self._call(self._host.security_faults.clear)

    def pending(self) -> tuple[Fault, ...]:
        """Return copies of the faults that have requests left to hit."""
        copies: list[Fault] = []
        self._call(lambda: copies.extend(dataclasses.replace(it) for it in self._book.armed))
        return tuple(copies)

    def untriggered(self) -> tuple[Fault, ...]:
        """Return copies of the faults that have hit no request yet; callable after `close`, too."""
        return tuple(dataclasses.replace(it) for it in self._book.armed if it.hit_count == 0)

    def _arm(
        self, kind: FaultKind, api: int, times: int, where: Where, **how: Unpack[_How]
    ) -> None:
        if not isinstance(api, int) or api not in _API_KEYS:
            raise ValueError(f"api must be an ApiKey, such as ApiKey.PRODUCE, not {api!r}")
        fault = Fault(kind=kind, api_key=api, times=times, **where, **how)
        self._call(lambda: self._book.arm(fault))
