"""The server's side of one login, whatever its mechanism.

Thread-safety: the broker's thread.
"""

from typing import NamedTuple, Protocol

from kprod.broker.rejection import Refused
from kprod.protocol.error_table import ErrorCode


class Verdict(NamedTuple):
    """Result of a client's message.

    Attributes:
        message: The server's next, maybe empty.
        user: The user that has logged in; None while the exchange continues.
        lifetime_ms: How long what the user has shown is good; None for as long as the connection.
        by_delegation_token: Whether the user has shown a delegation token.
    """

    message: bytes
    user: str | None = None
    lifetime_ms: int | None = None
    by_delegation_token: bool = False


class Verifier(Protocol):
    """The server's side of one exchange."""

    def take(self, message: bytes) -> Verdict:
        """Read a client's message.

        Args:
            message: Of any bytes.

        Returns:
            What to answer.

        Raises:
            Refused: The login failed.
        """


def refusal(mechanism: str) -> Refused:
    """Make the refusal that tells nothing but the mechanism.

    Args:
        mechanism: Its name.

    Returns:
        An error to raise.
    """
    return Refused(
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        "Authentication failed during authentication due to invalid credentials with SASL"
        f" mechanism {mechanism}",
    )
