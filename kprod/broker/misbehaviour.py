"""Faults carried out: what is done to one request, before it is handled and after.

A fault that spoils the answer is a reply that does something else with it; so handlers know
nothing of faults, and an answer that comes late is spoiled like any other.

Thread-safety: the broker's thread.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any

from kprod.broker.client_connection import Connection
from kprod.broker.faults import Fault, FaultKind
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.request import Request
from kprod.broker.scheduler import After

_SIZE = struct.Struct(">i")


def rewritten(frame: bytearray, faults: Sequence[Fault]) -> bytearray:
    """The request's bytes after REWRITE_REQUEST, if that is among the faults."""
    for fault in faults:
        if fault.kind is FaultKind.REWRITE_REQUEST and fault.function is not None:
            return bytearray(fault.function(bytes(frame)))
    return frame


def handle_with_faults(
    handler: Handler, request: Request, faults: Sequence[Fault], *, after: After
) -> None:
    """Handle a request as its faults demand.

    Args:
        handler: The API's.
        request: Its reply is a `SpoiledReply` with the same faults.
        faults: At most one of each kind.
        after: Runs something after so many milliseconds.
    """
    before = {fault.kind: fault for fault in faults if not fault.handled}
    delay = before.pop(FaultKind.DELAY, None)
    if delay is not None:
        after(delay.delay_ms, lambda: _handle(handler, request, before, faults))
    else:
        _handle(handler, request, before, faults)


def _handle(
    handler: Handler,
    request: Request,
    before: dict[FaultKind, Fault],
    faults: Sequence[Fault],
) -> None:
    if FaultKind.DROP in before:
        request.hang()
    elif FaultKind.DISCONNECT in before:
        request.disconnect()
    elif FaultKind.FAIL in before:
        request.answer(handler.reject(request, before[FaultKind.FAIL].error_code))
    else:
        _carry_out(handler, request, faults)


def _carry_out(handler: Handler, request: Request, faults: Sequence[Fault]) -> None:
    again = None
    if any(fault.kind is FaultKind.DUPLICATE for fault in faults):
        again = request.shadow(_Unheard(), _owned_body(request.body))
    fail = next((it for it in faults if it.kind is FaultKind.FAIL and it.handled), None)
    if fail is None:
        handler.handle(request)
    else:
        code = fail.error_code
        whenever_done = _Unheard(lambda: request.answer(handler.reject(request, code)))
        handler.handle(request.shadow(whenever_done, request.body))
    if again is not None:
        handler.handle(again)


def _owned_body(body: dict[str, Any]) -> dict[str, Any]:
    return {key: _owned(value) for key, value in body.items()}


def _owned(value: object) -> object:
    """A value whose records are its own bytes, since a log keeps and changes what it is given."""
    if isinstance(value, memoryview):
        return memoryview(bytearray(value))
    if isinstance(value, dict):
        return {key: _owned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_owned(item) for item in value]
    return value


class _Unheard:
    """A reply that reaches nobody."""

    __slots__ = ("_when_done",)

    def __init__(self, when_done: Callable[[], None] = lambda: None) -> None:
        self._when_done = when_done

    def send(self, frame: bytes) -> None:  # noqa: ARG002 - nobody reads it
        self._when_done()

    def skip(self) -> None:
        self._when_done()

    def hang(self) -> None:
        self._when_done()

    def close(self) -> None:
        self._when_done()

    def mute(self, delay_ms: int) -> None:
        """Nobody waits."""

    def report(self, error: Exception) -> None:
        raise error

    def fail(self, error: Exception) -> None:
        raise error


class SpoiledReply:
    """A connection's reply with the answer's faults in front."""

    __slots__ = ("_after", "_connection", "_faults")

    def __init__(self, connection: Connection, faults: Sequence[Fault], after: After) -> None:
        """Stand before a connection.

        Args:
            connection: Gets what is left of the answer.
            faults: Those of the request.
            after: Runs something after so many milliseconds.
        """
        self._connection = connection
        self._faults = {fault.kind: fault for fault in faults}
        self._after = after

    def send(self, frame: bytes) -> None:
        """Spoil the answer in the order rewrite, delay, drop, disconnect, cut."""
        rewrite = self._faults.get(FaultKind.REWRITE)
        if rewrite is not None and rewrite.function is not None:
            frame = rewrite.function(frame)
        delay = self._faults.get(FaultKind.DELAY)
        if delay is not None and delay.handled:
            self._after(delay.delay_ms, lambda: self._send(frame))
        else:
            self._send(frame)

    def skip(self) -> None:
        """No answer, nothing to spoil."""
        self._connection.skip()

    def hang(self) -> None:
        """Hang."""
        self._connection.hang()

    def close(self) -> None:
        """Close."""
        self._connection.close()

    def mute(self, delay_ms: int) -> None:
        """Mute."""
        self._connection.mute(delay_ms)

    def report(self, error: Exception) -> None:
        """Report."""
        self._connection.report(error)

    def fail(self, error: Exception) -> None:
        """Report and close."""
        self._connection.fail(error)

    def _send(self, frame: bytes) -> None:
        cut = self._faults.get(FaultKind.CUT)
        if FaultKind.DROP in self._faults:
            self._connection.hang()
        elif FaultKind.DISCONNECT in self._faults:
            self._connection.close()
        elif cut is not None:
            self._connection.send_raw((_SIZE.pack(len(frame)) + frame)[: cut.at_byte])
            self._connection.close()
        else:
            self._connection.send(frame)
