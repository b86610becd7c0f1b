"""Creates the errors with which connections end, and those of their requests.

Thread-safety: any thread; nothing here modifies a connection.
Source: Kafka's NetworkClient.processDisconnection (clients 4.3.1) for which error a request gets.
"""

from collections.abc import Mapping

from kprod.error_text import error_text
from kprod.errors import (
    AuthenticationFailed,
    ClosedError,
    ConnectionFailed,
    Disconnected,
    KprodError,
    RequestTimeout,
    TlsFailed,
    own_copy,
    without_frames,
)
from kprod.model import Node
from kprod.network.framing import WITHOUT_TLS
from kprod.network.in_flight import InFlightRequest

_MAY_WANT = "it may want"


def error_for_request(error: KprodError, node: Node) -> KprodError:
    """Create the error of a request in flight when its connection ends; each request gets its own.

    Args:
        error: The reason of the connection's end.
        node: The node to connect to.

    Returns:
        A copy, or `Disconnected` if the error does not concern the request itself.
    """
    if isinstance(error, Disconnected | RequestTimeout | ClosedError) or is_rejection(error):
        return own_copy(error)
    disconnected = Disconnected(f"connection to {node.address} was closed by the client: {error}")
    disconnected.__cause__ = error
    return disconnected


def is_rejection(error: KprodError) -> bool:
    """Whether the peer rejected the client's identity, or could not prove its own."""
    is_tls = isinstance(error, TlsFailed) and error.is_identity
    return is_tls or isinstance(error, AuthenticationFailed)


def kept_rejection(error: KprodError) -> KprodError | None:
    """Return a copy of a rejection for later errors, without frames; None for other errors."""
    return without_frames(own_copy(error)) if is_rejection(error) else None


def lost_error(node: Node, error: OSError) -> KprodError:
    """Return the error for a socket that reported one."""
    lost = Disconnected(f"connection to {node.address} lost: {reason_of(error)}")
    lost.__cause__ = error
    return lost


def failure_error(node: Node, cause: Exception) -> KprodError:
    """Return the error for a failure in kprod itself."""
    lost = Disconnected(
        f"connection to {node.address} closed by the client: kprod failed: {error_text(cause)}"
    )
    lost.__cause__ = cause
    return lost


def early_close_error(error: KprodError, *, uses_tls: bool) -> KprodError:
    """Return the error for a peer that closed the connection before it responded to ApiVersions."""
    if uses_tls:
        return Disconnected(
            f"{error} before it answered ApiVersions, and after the TLS handshake; {_MAY_WANT} SASL"
        )
    return Disconnected(
        f"{error} before it answered ApiVersions; {_MAY_WANT} TLS or SASL. {WITHOUT_TLS}"
    )


def failure_text(error: KprodError, known: Mapping[int, Node], principal: str) -> str:
    """Describe why a connection ended.

    Args:
        error: The reason.
        known: The nodes by id; before the first response to a Metadata request those of
            `bootstrap_servers`, whose ids are negative.
        principal: User and mechanism of the client's logins; empty without a login.

    Returns:
        One line; a broker that closes a connection at the first request may want a login.
    """
    text = str(error)
    is_known = max(known, default=-1) >= 0
    if type(error) is not Disconnected or is_known or principal or _MAY_WANT in text:
        return text
    return (
        f"{text} at the first request; {_MAY_WANT} SASL: set security_protocol=SASL_PLAINTEXT or"
        " SASL_SSL, and sasl_mechanism"
    )


def closed_login_error(error: KprodError) -> KprodError:
    """Return the error for a peer that closed the connection during a login."""
    return Disconnected(
        f"{error} in the middle of the login; a proxy may have closed it, or a broker that is"
        " shutting down"
    )


def connect_error(node: Node, reasons: Mapping[str, str]) -> KprodError:
    """Return the error for an attempt that failed at all addresses, with a reason for each."""
    told = "; ".join(f"{address}: {reason}" for address, reason in reasons.items())
    return ConnectionFailed(f"cannot connect to {node.address} ({told})")


def setup_timeout_error(
    node: Node, address: object, allowed_ms: int, *, is_in_tls: bool = False
) -> KprodError:
    """Return the error for an attempt that timed out; address None means during name resolution."""
    doing = "resolving its name" if address is None else f"connecting to {address}"
    if is_in_tls:
        doing = (
            f"in the TLS handshake with {address}, whose listener may have no TLS"
            " (security_protocol)"
        )
    return ConnectionFailed(
        f"cannot connect to {node.address} within {allowed_ms} ms"
        f" (socket_connection_setup_timeout_ms), still {doing}"
    )


def request_timeout_error(node: Node, in_flight: InFlightRequest) -> KprodError:
    """Return the error for a request that timed out."""
    return RequestTimeout(
        f"{node.address} did not answer {in_flight.request.api_key.name} within"
        f" {in_flight.deadline_ms - in_flight.sent_at_ms} ms (request_timeout_ms);"
        f" {in_flight.frame.written_bytes} of {in_flight.frame.size_bytes} bytes were sent"
    )


def reason_of(error: Exception) -> str:
    """Describe briefly why a system call failed."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
