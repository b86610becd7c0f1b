"""PLAIN: name and password in one message.

Thread-safety: one thread.
Source: RFC 4616; Kafka's PlainSaslServer (4.3), which wants no other user than the one that logs
in.
"""

from kprod.errors import AuthenticationFailed
from kprod.network.sasl.login import Login
from kprod.network.sasl.passwords import Password, present_password


class PlainLogin(Login):
    """Verifies name and password in one message."""

    __slots__ = ("_password", "_user")

    def __init__(self, user: str, password: Password) -> None:
        """Create the login of a user.

        Args:
            user: The user name, without NUL characters.
            password: The password, or a function that returns it.
        """
        self._user = user
        self._password = password

    def first(self) -> bytes:
        """See `Login`."""
        password = present_password(self._password)
        return b"\0".join((b"", self._user.encode(), password.reveal().encode()))

    def answer(self, challenge: bytes) -> bytes | None:
        """See `Login`; there is no further message."""
        if challenge:
            raise AuthenticationFailed(
                f"the broker's answer to a PLAIN login must be empty; it has {len(challenge)} bytes"
            )
        return None
