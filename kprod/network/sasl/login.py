"""One login by one mechanism: bytes in, bytes out. No socket and no clock.

Thread-safety: one thread.
"""

from collections.abc import Callable
from typing import Protocol

from kprod.errors import AuthenticationFailed, ConnectionFailed


class Login(Protocol):
    """The client's side of one exchange."""

    def prepare(self, challenge: bytes | None, resume: Callable[[], None]) -> bool:
        """Get ready to make the next message.

        Args:
            challenge: That is answered next; None before the first message.
            resume: Called once on the client's thread, later, if this returns False.

        Returns:
            Whether the next message can be made now.

        Raises:
            AuthenticationFailed: There is none.
        """
        del challenge, resume
        return True

    def first(self) -> bytes:
        """Make the first message.

        Raises:
            AuthenticationFailed: There is none.
        """

    def answer(self, challenge: bytes) -> bytes | None:
        """Read the broker's message.

        Args:
            challenge: Of any bytes.

        Returns:
            The next message; None when the login is over.

        Raises:
            AuthenticationFailed: The broker is not who it should be, or breaks the mechanism.
        """

    def refusal(self, error: AuthenticationFailed) -> ConnectionFailed:
        """Hear that the broker refused the login.

        Args:
            error: With the broker's text.

        Returns:
            It, or another to raise in its place.
        """
        return error
