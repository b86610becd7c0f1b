"""Decodes a request frame and calls the handler of its API.

Behaviour.
    A. ApiVersions in a version that is not served is answered in version 0 (KIP-511).
    B. Any other request that is not served, and bytes that are not the request they claim to be,
       close the connection, as in Kafka.
    C. Bytes after the request are ignored, as in Kafka: librdkafka 2.16 sends three of them when it
       asks for the metadata of all topics.
    D. A handler that fails inside is answered with UNKNOWN_SERVER_ERROR, or its connection closed
       where there is no response, and the failure is reported; see `request`.
    E. A request whose fields would take more than `decoded_request_bytes_max` beyond its own bytes
       closes the connection: decoded, a list of small elements takes a hundred times its bytes.
    F. A request that the connection's session does not allow closes the connection; nothing is
       said, or ILLEGAL_SASL_STATE, as in Kafka; see `session`.

Thread-safety: the broker's thread.
Source: Kafka RequestContext.parseRequest.
"""

import struct
from collections.abc import Callable

from kprod._core.wire.wire_bounds import Bounds
from kprod.broker.client_connection import Connection
from kprod.broker.cluster_state import ClusterState
from kprod.broker.faults import Fault, FaultBook
from kprod.broker.handlers.api_versions_handler import respond_to_unknown_version
from kprod.broker.handlers.registry import make_handlers
from kprod.broker.misbehaviour import SpoiledReply, handle_with_faults, rewritten
from kprod.broker.notices import Notices
from kprod.broker.rejection import shortened
from kprod.broker.request import Request
from kprod.broker.security.access import Access
from kprod.broker.security.acls import Authorizer
from kprod.broker.security.session import Admission
from kprod.errors import RemoteProtocolError
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import request_codec
from kprod.protocol.error_table import ErrorCode
from kprod.protocol.headers import decode_request_header

_MALFORMED = "closing a connection, malformed request"
_CLIENT_ID_SHOWN = 100
_API_KEY = struct.Struct(">h")


class Dispatcher:
    """Calls the handler of each request.

    Attributes:
        throttles: Throttle time in milliseconds, by API key.
    """

    __slots__ = (
        "_authorizer",
        "_bounds",
        "_faults",
        "_handlers",
        "_notices",
        "_state",
        "throttles",
    )

    def __init__(self, state: ClusterState, faults: FaultBook, notices: Notices) -> None:
        """Create the handlers for a cluster.

        Args:
            state: The cluster.
            faults: The injected faults.
            notices: Logs warnings about faulty clients.
        """
        self._state = state
        self._faults = faults
        self._notices = notices
        self._authorizer = Authorizer(state.security.acls, state.security.super_users)
        self._bounds = Bounds(memory_bytes=state.config.decoded_request_bytes_max)
        self._handlers = make_handlers(state)
        self.throttles: dict[int, int] = {}

    def take_request(self, frame: bytearray, connection: Connection, node_id: int) -> None:
        """Process one frame.

        Args:
            frame: Header and body; the log may keep the buffer if it contains records.
            connection: The connection that the frame came from.
            node_id: The broker that got the request.
        """
        self._guard(connection, lambda: self._dispatch(frame, connection, node_id))

    def _guard(self, connection: Connection, action: Callable[[], None]) -> None:
        try:
            action()
        except RemoteProtocolError as error:
            text = shortened(str(error))
            self._notices.warn(_MALFORMED, "%s from %s: %s", _MALFORMED, connection.peer, text)
            connection.close()  # case B
        except Exception as error:  # noqa: BLE001 - whatever it is, one request must not end all
            connection.fail(error)

    def _dispatch(self, frame: bytearray, connection: Connection, node_id: int) -> None:
        if len(frame) < _API_KEY.size:
            raise RemoteProtocolError(f"a request of {len(frame)} bytes")
        admission = connection.session.admit(_API_KEY.unpack_from(frame)[0])
        if admission is Admission.CLOSED:
            connection.close()  # case F
            return
        faults = self._faults.take(_API_KEY.unpack_from(frame)[0], node_id)
        if faults:
            frame = rewritten(frame, faults)
        request, body_offset = self._request(frame, connection, faults, node_id)
        handler = self._handlers.get(request.api_key)
        low, high = (0, -1) if handler is None else handler.versions
        if handler is None or not low <= request.api_version <= high:
            self._reject_version(request)
            return
        codec = request_codec(request.api_key, request.api_version)
        # Case E.
        request.body, _ = codec.decode_prefix(memoryview(frame)[body_offset:], self._bounds)
        request.throttle_time_ms = self.throttles.get(request.api_key, 0)
        request.rejection = handler.reject
        if admission is Admission.REJECTED:
            request.run(  # case F
                lambda: request.answer_and_close(
                    handler.reject(request, ErrorCode.ILLEGAL_SASL_STATE)
                )
            )
            return
        if not faults:
            request.run(lambda: handler.handle(request))  # case D
            return
        handle_with_faults(
            handler,
            request,
            faults,
            after=lambda delay_ms, action: self._state.after(delay_ms, lambda: request.run(action)),
        )

    def _request(
        self, frame: bytearray, connection: Connection, faults: list[Fault], node_id: int
    ) -> tuple[Request, int]:
        header, body_offset = decode_request_header(frame)
        reply = SpoiledReply(connection, faults, self._state.after) if faults else connection
        request = Request(
            reply,
            node_id=node_id,
            api_key=header.api_key,
            api_version=header.api_version,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
        )
        request.session = connection.session
        if self._state.security.acls is not None:
            request.access = Access(self._authorizer, connection.session.principal)
        request.client_host = "/" + connection.peer.rpartition(":")[0].strip("[]")
        return request, body_offset

    def _reject_version(self, request: Request) -> None:
        if request.api_key == ApiKey.API_VERSIONS:
            respond_to_unknown_version(request)  # case A
            return
        client_id = (request.client_id or "")[:_CLIENT_ID_SHOWN]
        raise RemoteProtocolError(
            f"client {client_id!r} sent API key {request.api_key} version "
            f"{request.api_version}, which is not served"
        )
