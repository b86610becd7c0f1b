"""The interface of a SASL mechanism: bytes in, bytes out, without socket and clock.

Thread-safety: one thread.
"""

from collections.abc import Callable
from typing import Protocol

from kprod.errors import AuthenticationFailed, ConnectionFailed


class Login(Protocol):
    """The client side of one exchange."""

    def prepare(self, challenge: bytes | None, resume: Callable[[], None]) -> bool:
        """Prepare the next message.

        Args:
            challenge: The broker's message to respond to; None before the first message.
            resume: Called once on the client's thread, later, if this returns False.

        Returns:
            True if the next message is available now.

        Raises:
            AuthenticationFailed: The message cannot be created.
        """
        del challenge, resume
        return True

    def first(self) -> bytes:
        """Create the first message.

        Raises:
            AuthenticationFailed: The message cannot be created.
        """

    def answer(self, challenge: bytes) -> bytes | None:
        """Process the broker's message.

        Args:
            challenge: Any bytes.

        Returns:
            The next message; None if the login is over.

        Raises:
            AuthenticationFailed: The broker failed verification or violated the mechanism.
        """

    def rejection(self, error: AuthenticationFailed) -> ConnectionFailed:
        """Process the broker's rejection of the login.

        Args:
            error: The error with the broker's text.

        Returns:
            The error to raise: the same or another.
        """
        return error
