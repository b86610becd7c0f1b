"""One login by one mechanism: bytes in, bytes out. No socket, clock or thread.

Thread-safety: one thread.
Source: RFC 4616 for PLAIN; Kafka's PlainSaslServer (4.3), which wants no other user than the one
that logs in.
"""

from typing import Protocol

from kprod.config import Secret
from kprod.errors import AuthenticationFailed


class Login(Protocol):
    """The client's side of one exchange."""

    def first(self) -> bytes:
        """Make the first message."""

    def answer(self, challenge: bytes) -> bytes | None:
        """Read the broker's message.

        Args:
            challenge: Of any bytes.

        Returns:
            The next message; None when the login is over.

        Raises:
            AuthenticationFailed: The broker is not who it should be, or breaks the mechanism.
        """


class PlainLogin:
    """Name and password in one message."""

    __slots__ = ("_password", "_user")

    def __init__(self, user: str, password: Secret) -> None:
        """Know who logs in.

        Args:
            user: Without a character NUL.
            password: As the name.
        """
        self._user = user
        self._password = password

    def first(self) -> bytes:
        """See `Login`."""
        return b"\0".join((b"", self._user.encode(), self._password.reveal().encode()))

    def answer(self, challenge: bytes) -> bytes | None:
        """See `Login`; there is nothing more to say."""
        if challenge:
            raise AuthenticationFailed(
                f"the broker answered the login by PLAIN with {len(challenge)} bytes more"
            )
        return None
