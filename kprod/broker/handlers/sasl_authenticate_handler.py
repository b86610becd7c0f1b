"""SaslAuthenticate: processes one message of a login.

Behaviour.
    A. A login that fails is answered with its error code and a text that tells neither whether the
       user is known nor the mistake; `failure_delay_ms` later, so that guessing takes time; then
       the connection is closed.
    B. From version 1 the last response says how long the session lasts: the broker's limit or the
       rest of a token's life, whichever ends first.
    C. If no login is in progress, ILLEGAL_SASL_STATE; the connection stays.
Versions: 0 to 2.
Source: Kafka's SaslServerAuthenticator (4.3), KIP-152, KIP-368.
"""

from kprod.broker.cluster_state import ClusterState
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.rejection import Rejected
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode


class SaslAuthenticateHandler(Handler):
    """Continues a login."""

    api_key = ApiKey.SASL_AUTHENTICATE
    versions: tuple[int, int] = (0, 2)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately, or after a delay if the login fails."""
        session = request.session
        assert session is not None  # noqa: S101 - the dispatcher gives it
        try:
            verdict = session.authenticate(bytes(request.body["auth_bytes"]))
        except Rejected as rejected:
            body = {**self.reject(request, rejected.code), "error_message": rejected.text}
            if not session.is_closing:
                request.answer(body)  # case C
                return
            delay_ms = self._state.security.failure_delay_ms
            if delay_ms:
                self._state.after(delay_ms, lambda: request.answer_and_close(body))
            else:
                request.answer_and_close(body)  # case A
            return
        request.answer(
            {
                "error_code": ErrorCode.NONE,
                "error_message": "",
                "auth_bytes": verdict.message,
                "session_lifetime_ms": 0 if verdict.user is None else session.lifetime_ms,
            }
        )

    def reject(self, request: Request, code: int) -> Body:  # noqa: ARG002 - a Handler's
        """Respond without a message."""
        return {"error_code": code, "error_message": None, "auth_bytes": b""}
