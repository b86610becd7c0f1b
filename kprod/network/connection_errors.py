"""The errors with which a connection ends, and what becomes of its requests.

Thread-safety: any thread; nothing here changes a connection.
Source: Kafka's NetworkClient.processDisconnection (clients 4.3.1) for which error a request gets.
"""

from collections.abc import Mapping

from kprod.errors import (
    AuthenticationFailed,
    ClosedError,
    ConnectionFailed,
    Disconnected,
    KprodError,
    RequestTimeout,
    TlsFailed,
    own_copy,
)
from kprod.model import Node
from kprod.network.framing import WITHOUT_TLS
from kprod.network.in_flight import InFlightRequest


def error_for_request(error: KprodError, node: Node) -> KprodError:
    """Make what a request ends with when its connection goes; each gets an error of its own.

    Args:
        error: With which the connection was given up.
        node: Where to.

    Returns:
        A copy, or `Disconnected` because of an error that does not concern the request itself.
    """
    if isinstance(error, Disconnected | RequestTimeout | ClosedError) or is_refusal(error):
        return own_copy(error)
    disconnected = Disconnected(f"connection to {node.address} was given up: {error}")
    disconnected.__cause__ = error
    return disconnected


def is_refusal(error: KprodError) -> bool:
    """Whether the peer refused who this client is, or could not prove who it is itself."""
    is_tls = isinstance(error, TlsFailed) and error.is_identity
    return is_tls or isinstance(error, AuthenticationFailed)


def lost_error(node: Node, error: OSError) -> KprodError:
    """Return the error of a socket that reported one."""
    lost = Disconnected(f"connection to {node.address} lost: {reason_of(error)}")
    lost.__cause__ = error
    return lost


def failure_error(node: Node, cause: Exception) -> KprodError:
    """Return the error of a connection on which kprod itself failed."""
    lost = Disconnected(f"connection to {node.address} given up: kprod failed: {cause!r}")
    lost.__cause__ = cause
    return lost


def early_close_error(error: KprodError, *, uses_tls: bool) -> KprodError:
    """Return the error of a peer that closed the connection before it answered ApiVersions."""
    if uses_tls:
        return Disconnected(
            f"{error} before it answered ApiVersions, and after the TLS handshake; it may want SASL"
        )
    return Disconnected(
        f"{error} before it answered ApiVersions; it may want TLS or SASL. {WITHOUT_TLS}"
    )


def closed_login_error(error: KprodError) -> KprodError:
    """Return the error of a peer that closed the connection in the middle of a login."""
    return Disconnected(
        f"{error} in the middle of the login; a proxy may have closed it, or a broker that is"
        " shutting down"
    )


def connect_error(node: Node, reasons: Mapping[str, str]) -> KprodError:
    """Return the error of an attempt that no address took; the reasons are by address."""
    told = "; ".join(f"{address}: {reason}" for address, reason in reasons.items())
    return ConnectionFailed(f"cannot connect to {node.address} ({told})")


def setup_timeout_error(node: Node, address: object, allowed_ms: int) -> KprodError:
    """Return the error of an attempt that took too long; address None is its name's resolution."""
    doing = "resolving its name" if address is None else f"connecting to {address}"
    return ConnectionFailed(
        f"cannot connect to {node.address} within {allowed_ms} ms"
        f" (socket_connection_setup_timeout_ms), still {doing}"
    )


def request_timeout_error(node: Node, in_flight: InFlightRequest) -> KprodError:
    """Return the error of a request that was not answered in time."""
    return RequestTimeout(
        f"{node.address} did not answer {in_flight.request.api_key.name} within"
        f" {in_flight.deadline_ms - in_flight.sent_at_ms} ms (request_timeout_ms);"
        f" {in_flight.frame.written_bytes} of {in_flight.frame.size_bytes} bytes were sent"
    )


def reason_of(error: Exception) -> str:
    """Say in a few words why a call of the system failed."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
