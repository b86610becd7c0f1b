"""Faults on demand: what a broker does wrong, to which request, how often.

A fault is armed for an API and waits for a request of it. `skip` lets that many pass first, so
the n-th request is hit; `times` is how many are hit; `broker` limits it to one. Several faults
may hit one request: a delayed failure is a delay and a failure.

Two moments matter to a client and look alike to it: before the request was handled and after.
Every fault that spoils a response takes `handled`: True lets the broker do the work first (the
batch is in the log) and then spoils the response.

Thread-safety: `FaultControl` from any thread; `FaultBook` the broker's thread.
Source: kprod's own; franz-go's kfake and librdkafka's mock cluster for what users of them miss.
"""

import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import Protocol, TypedDict, Unpack

from kprod.broker.security.security_faults import SecurityFaults
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import error_for


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
    """One armed fault; `skip` and `times` count down.

    Attributes:
        kind: The kind of fault.
        api_key: The requests it is for.
        skip: Requests to let pass first.
        times: Requests to hit.
        broker: Only this broker; None for all.
        handled: The request is handled before its response is spoiled.
        error_code: For FAIL.
        delay_ms: For DELAY.
        at_byte: For CUT: bytes of the response that leave, its size field included.
        function: For REWRITE and REWRITE_REQUEST: a frame without its size to another.
        hit_count: Requests that it has hit.
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
        """The fault in words, such as "PRODUCE never answered, times=1"."""
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
        """Make an empty book."""
        self._armed: list[Fault] = []

    def arm(self, fault: Fault) -> None:
        """Add a fault."""
        self._armed.append(fault)

    def clear(self) -> None:
        """Forget every fault."""
        self._armed.clear()

    @property
    def armed(self) -> Sequence[Fault]:
        """Faults that still wait for a request."""
        return tuple(self._armed)

    def take(self, api_key: int, node_id: int) -> list[Fault]:
        """The faults that hit this request, at most one of each kind; counts them down."""
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
    """Which requests of an API a fault hits.

    Attributes:
        skip: Requests to let pass first; 0 if not given.
        broker: Only this broker's; all if not given.
    """

    skip: int
    broker: int


class _How(TypedDict, total=False):
    """What a fault does to its requests; as in `Fault`."""

    handled: bool
    error_code: int
    delay_ms: int
    at_byte: int
    function: Callable[[bytes], bytes]


class FaultHost(Protocol):
    """What the faults of a cluster act upon.

    Attributes:
        faults: Those of requests.
        security_faults: Those of TLS and of logins.
    """

    faults: FaultBook
    security_faults: SecurityFaults

    def stall(self, node_id: int, stalled: bool) -> None:  # noqa: FBT001 - a callback's argument
        """Stall (True) or resume a broker."""

    def expire_sessions(self) -> None:
        """Let every session be over."""


class FaultControl:
    """The face of the faults that a test sees: `cluster.faults`.

    In every method `api` says which requests, `times` how many of them, at least 1.

    Thread-safety: any thread.
    """

    __slots__ = ("_book", "_call", "_host")

    def __init__(self, host: FaultHost, *, call: Callable[[Callable[[], object]], object]) -> None:
        """Wrap a cluster's books.

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
        """Answer with an error code in every place of the response that has one.

        A Produce request with acks=0, which gets no response, has its connection closed.

        Args:
            api: Which requests.
            error_code: The protocol's number.
            times: How many, at least 1.
            handled: Do the request first; the client only believes that it failed. A partition
                that the broker itself refuses keeps the broker's error.
            **where: Which of them.
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
        """Hold requests back `delay_ms`; with `handled`, handle at once and delay the response."""
        self._arm(FaultKind.DELAY, api, times, where, delay_ms=delay_ms, handled=handled)

    def drop(
        self, api: int, times: int = 1, *, handled: bool = False, **where: Unpack[Where]
    ) -> None:
        """Never answer, nor what follows on that connection: a stream cannot lose its middle."""
        self._arm(FaultKind.DROP, api, times, where, handled=handled)

    def disconnect(
        self, api: int, times: int = 1, *, handled: bool = False, **where: Unpack[Where]
    ) -> None:
        """Close the connection instead of answering."""
        self._arm(FaultKind.DISCONNECT, api, times, where, handled=handled)

    def duplicate(self, api: int, times: int = 1, **where: Unpack[Where]) -> None:
        """Handle requests twice, as if the network had repeated them; one response, the first."""
        self._arm(FaultKind.DUPLICATE, api, times, where)

    def omit(
        self, api: int, times: int = 1, *, handled: bool = False, **where: Unpack[Where]
    ) -> None:
        """Leave the first partition out: of the request, or with `handled` of the response."""
        self._arm(FaultKind.OMIT, api, times, where, handled=handled)

    def empty(
        self, api: int, times: int = 1, *, handled: bool = False, **where: Unpack[Where]
    ) -> None:
        """Leave every partition out: of the request, or with `handled` of the response."""
        self._arm(FaultKind.EMPTY, api, times, where, handled=handled)

    def cut(self, api: int, at_byte: int, times: int = 1, **where: Unpack[Where]) -> None:
        """Handle requests, send the first `at_byte` bytes of the response, close the connection."""
        self._arm(FaultKind.CUT, api, times, where, at_byte=at_byte)

    def rewrite(
        self,
        api: int,
        function: Callable[[bytes], bytes],
        times: int = 1,
        **where: Unpack[Where],
    ) -> None:
        """Change answers' bytes: `function` gets the frame from its correlation id on."""
        self._arm(FaultKind.REWRITE, api, times, where, function=function)

    def rewrite_request(
        self,
        api: int,
        function: Callable[[bytes], bytes],
        times: int = 1,
        **where: Unpack[Where],
    ) -> None:
        """Change requests' bytes before they are read; `function` gets the frame and its header."""
        self._arm(FaultKind.REWRITE_REQUEST, api, times, where, function=function)

    def stall(self, broker: int) -> None:
        """Let a broker stand still: its connections stay open and nothing moves on them."""
        self._call(lambda: self._host.stall(broker, True))  # noqa: FBT003 - stalled or not

    def resume(self, broker: int) -> None:
        """Let a stalled broker continue."""
        self._call(lambda: self._host.stall(broker, False))  # noqa: FBT003 - stalled or not

    def refuse_logins(self, times: int = 1, message: str = "Authentication failed") -> None:
        """Refuse the next logins, right or wrong, with SASL_AUTHENTICATION_FAILED and a text.

        A login that is slow is a `delay` of `ApiKey.SASL_AUTHENTICATE`, one that is never answered
        a `drop`.

        Args:
            times: How many.
            message: The text.
        """
        self._call(lambda: self._host.security_faults.refusals.extend([message] * times))

    def break_handshakes(self, at_byte: int, times: int = 1) -> None:
        """Close the next connections with TLS in the middle of their handshake.

        Args:
            at_byte: How many bytes of the broker's leave before; the whole handshake has some
                2,000.
            times: How many connections.
        """
        self._call(lambda: self._host.security_faults.handshake_cuts.extend([at_byte] * times))

    def tamper(self, times: int = 1) -> None:
        """Change a bit of the next ciphertext that leaves, so that the client must refuse it.

        Args:
            times: How many times.
        """

        def arm() -> None:
            self._host.security_faults.tampered_count += times

        self._call(arm)

    def expire_sessions(self) -> None:
        """Let the session of every client that has logged in be over now."""
        self._call(self._host.expire_sessions)

    def clear(self) -> None:
        """Disarm every fault; a stalled broker stays so."""
        self._call(self._book.clear)
        self._call(self._host.security_faults.clear)

    def pending(self) -> tuple[Fault, ...]:
        """Copies of the faults that still wait for a request."""
        copies: list[Fault] = []
        self._call(lambda: copies.extend(dataclasses.replace(it) for it in self._book.armed))
        return tuple(copies)

    def untriggered(self) -> tuple[Fault, ...]:
        """Copies of the faults that wait for a request and have hit none; also after `close`."""
        return tuple(dataclasses.replace(it) for it in self._book.armed if it.hit_count == 0)

    def _arm(
        self, kind: FaultKind, api: int, times: int, where: Where, **how: Unpack[_How]
    ) -> None:
        fault = Fault(kind=kind, api_key=api, times=times, **where, **how)
        self._call(lambda: self._book.arm(fault))
