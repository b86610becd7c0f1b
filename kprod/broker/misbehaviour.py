"""Applies the injected faults to a request, before and after it is processed.

A fault of the response is a `Reply` that modifies it; so handlers know nothing of faults, and
delayed responses are spoiled like any other.

Invariants.
    A response never contradicts the broker: a partition that the broker rejects keeps the broker's
    error, even if a fault has another.

Thread-safety: the broker's thread.
"""

import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any

from kprod.broker.client_connection import Connection
from kprod.broker.faults import Fault, FaultKind
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.request import Body, Request
from kprod.broker.scheduler import After
from kprod.protocol.codec import response_codec
from kprod.protocol.headers import decode_response_header

_SIZE = struct.Struct(">i")
_PARTITION_LISTS = frozenset({"partition_data", "partition_responses", "partitions"})
_LEAVING_OUT = (FaultKind.OMIT, FaultKind.EMPTY)


def rewritten(frame: bytearray, faults: Sequence[Fault]) -> bytearray:
    """Apply REWRITE_REQUEST to the request's bytes, if it is among the faults."""
    for fault in faults:
        if fault.kind is FaultKind.REWRITE_REQUEST and fault.function is not None:
            return bytearray(fault.function(bytes(frame)))
    return frame


def handle_with_faults(
    handler: Handler, request: Request, faults: Sequence[Fault], *, after: After
) -> None:
    """Process a request with its faults.

    Args:
        handler: The API's handler.
        request: The request; its reply is a `SpoiledReply` with the same faults.
        faults: The faults, at most one of each kind.
        after: Calls a function after a number of milliseconds.
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
        _reject(handler, request, before[FaultKind.FAIL].error_code)
    else:
        for kind in _LEAVING_OUT:
            if kind in before:
                request.body = _without_partitions(request.body, kind)
        _carry_out(handler, request, faults)


def _reject(handler: Handler, request: Request, code: int) -> None:
    if request.body.get("acks") == 0:
        request.disconnect()  # there is no response to put the error code into
    else:
        request.answer(handler.reject(request, code))


def _carry_out(handler: Handler, request: Request, faults: Sequence[Fault]) -> None:
    again = None
    if any(fault.kind is FaultKind.DUPLICATE for fault in faults):
        again = request.shadow(_Unheard(), _owned_body(request.body))
    after = {fault.kind: fault for fault in faults if fault.handled}
    if after.keys() & {FaultKind.FAIL, *_LEAVING_OUT}:
        handler.handle(request.shadow(_ChangedReply(handler, request, after), request.body))
    else:
        handler.handle(request)
    if again is not None:
        handler.handle(again)


def _rejected_too(own: Body, rejection: Body) -> Body:
    """Merge an error response with the broker's own, whose errors take precedence."""
    if "error_code" in rejection and own.get("error_code"):
        return own
    return {key: _kept_errors(own.get(key), value) for key, value in rejection.items()}


def _kept_errors(own: object, rejection: object) -> object:
    if isinstance(own, Mapping) and isinstance(rejection, Mapping):
        return _rejected_too(own, rejection)
    if isinstance(own, list) and isinstance(rejection, list) and len(own) == len(rejection):
        return list(starmap(_kept_errors, zip(own, rejection, strict=True)))
    return rejection


def _without_partitions(body: Body, kind: FaultKind) -> dict[str, Any]:
    """Copy a body without its first partition (OMIT), or without any."""
    pruned = _owned_body(body)
    count = 1 if kind is FaultKind.OMIT else sys.maxsize
    for partitions in _partition_lists(pruned):
        left_out_count = min(count, len(partitions))
        del partitions[:left_out_count]
        count -= left_out_count
    return pruned


def _partition_lists(value: object) -> Iterator[list[Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            if name in _PARTITION_LISTS and isinstance(item, list):
                yield item
            else:
                yield from _partition_lists(item)
    elif isinstance(value, list):
        for item in value:
            yield from _partition_lists(item)


def _owned_body(body: Body) -> dict[str, Any]:
    return {key: _owned(value) for key, value in body.items()}


def _owned(value: object) -> object:
    """Copy the records in a value, since a log keeps and modifies its buffers."""
    if isinstance(value, memoryview):
        return memoryview(bytearray(value))
    if isinstance(value, dict):
        return {key: _owned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_owned(item) for item in value]
    return value


class _Unheard:
    """A reply that discards the response."""

    __slots__ = ()

    def send(self, frame: bytes) -> None:
        """Discard the response."""

    def skip(self) -> None:
        """Do nothing."""

    def hang(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def mute(self, delay_ms: int) -> None:
        """Do nothing."""

    def report(self, error: Exception) -> None:
        raise error

    def fail(self, error: Exception) -> None:
        raise error


class _ChangedReply:
    """A reply that changes fields of the response: FAIL, OMIT and EMPTY, in this order."""

    __slots__ = ("_faults", "_handler", "_request")

    def __init__(
        self, handler: Handler, request: Request, faults: Mapping[FaultKind, Fault]
    ) -> None:
        self._handler = handler
        self._request = request  # gets the changed response
        self._faults = faults

    def send(self, frame: bytes) -> None:
        request = self._request
        _, at = decode_response_header(request.api_key, request.api_version, frame)
        body: Body = response_codec(request.api_key, request.api_version).decode(frame[at:])
        fail = self._faults.get(FaultKind.FAIL)
        if fail is not None:
            body = _rejected_too(body, self._handler.reject(request, fail.error_code))
        for kind in _LEAVING_OUT:
            if kind in self._faults:
                body = _without_partitions(body, kind)
        request.answer(body)

    def skip(self) -> None:
        if FaultKind.FAIL in self._faults:
            self._request.disconnect()  # there is no response to put the error code into
        else:
            self._request.respond_nothing()

    def hang(self) -> None:
        self._request.hang()

    def close(self) -> None:
        self._request.disconnect()

    def mute(self, delay_ms: int) -> None:
        """Do nothing: the request that gets the response mutes."""

    def report(self, error: Exception) -> None:
        raise error

    def fail(self, error: Exception) -> None:
        raise error


class SpoiledReply:
    """A connection's reply, with the faults of the response applied first."""

    __slots__ = ("_after", "_connection", "_faults")

    def __init__(self, connection: Connection, faults: Sequence[Fault], after: After) -> None:
        """Filter the responses of one connection.

        Args:
            connection: Receives the rest of the response.
            faults: The request's faults.
            after: Calls a function after a number of milliseconds.
        """
        self._connection = connection
        self._faults = {fault.kind: fault for fault in faults}
        self._after = after

    def send(self, frame: bytes) -> None:
        """Apply the faults to the response, in the order rewrite, delay, drop, disconnect, cut."""
        rewrite = self._faults.get(FaultKind.REWRITE)
        if rewrite is not None and rewrite.function is not None:
            frame = rewrite.function(frame)
        delay = self._faults.get(FaultKind.DELAY)
        if delay is not None and delay.handled:
            self._after(delay.delay_ms, lambda: self._send(frame))
        else:
            self._send(frame)

    def skip(self) -> None:
        """Pass on: there is no response to spoil."""
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
