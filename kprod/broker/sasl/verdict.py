"""The server side of a login, independent of the mechanism.

Thread-safety: the broker's thread.
"""

from typing import NamedTuple, Protocol

from kprod.broker.rejection import Rejected
from kprod.protocol.error_table import ErrorCode


class Verdict(NamedTuple):
    """Result of a client's message.

    Attributes:
        message: The server's next message, which may be empty.
        user: The user that has logged in; None while the exchange continues.
        lifetime_ms: Lifetime of the credentials; None for that of the connection.
        by_delegation_token: Whether the user logged in with a delegation token.
    """

    message: bytes
    user: str | None = None
    lifetime_ms: int | None = None
    by_delegation_token: bool = False


class Verifier(Protocol):
    """The server side of one login."""

    def take(self, message: bytes) -> Verdict:
        """Process a client's message.

        Args:
            message: Any bytes.

        Returns:
            The server's next message, and the user when the login succeeds.

        Raises:
            Rejected: The login failed.
        """


def rejection(mechanism: str) -> Rejected:
    """Create the error for a failed login, which reveals only the mechanism.

    Args:
        mechanism: Name of the mechanism.

    Returns:
        An error to raise.
    """
    return Rejected(
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        "Authentication failed during authentication due to invalid credentials with SASL"
        f" mechanism {mechanism}",
    )
