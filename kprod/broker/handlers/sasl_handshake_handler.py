"""SaslHandshake: selects the mechanism of a login.

Behaviour.
    A. A mechanism that is not served is answered with UNSUPPORTED_SASL_MECHANISM and those that
       are; then the connection is closed.
    B. Where no login is wanted, or not another one yet, ILLEGAL_SASL_STATE and no mechanism; the
       connection stays.
Versions: 0 to 1.
Left out: the bare tokens that followed version 0 before Kafka 1.0.
Source: Kafka's SaslServerAuthenticator (4.3), KIP-43, KIP-152.
"""

from kprod.broker.cluster_state import ClusterState
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode


class SaslHandshakeHandler(Handler):
    """Starts a login."""

    api_key = ApiKey.SASL_HANDSHAKE
    versions: tuple[int, int] = (0, 1)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately."""
        assert request.session is not None  # noqa: S101 - the dispatcher gives it
        code = request.session.begin(request.body["mechanism"])
        is_rejected = code == ErrorCode.ILLEGAL_SASL_STATE
        mechanisms = [] if is_rejected else list(self._state.security.mechanisms)
        body = {"error_code": code, "mechanisms": mechanisms}
        if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            request.answer_and_close(body)  # case A
        else:
            request.answer(body)

    def reject(self, request: Request, code: int) -> Body:  # noqa: ARG002 - a Handler's
        """Respond without mechanisms."""
        return {"error_code": code, "mechanisms": []}
