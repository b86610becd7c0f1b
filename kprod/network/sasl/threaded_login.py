"""Runs a login's message creation on the login thread.

Thread-safety: the client's thread; the wrapped login runs on the login thread.
"""

from collections.abc import Callable

from kprod.errors import AuthenticationFailed, ConnectionFailed
from kprod.network.sasl.login import Login
from kprod.network.sasl.login_thread import LoginJobs


class ThreadedLogin(Login):
    """A login whose messages are created on the login thread, since that may take long."""

    __slots__ = ("_failure", "_is_said", "_jobs", "_login", "_may_block", "_message")

    def __init__(
        self, login: Login, jobs: LoginJobs, may_block: Callable[[bytes | None], bool]
    ) -> None:
        """Wrap a login.

        Args:
            login: The login; methods that may block run on the login thread, one at a time.
            jobs: The login thread.
            may_block: Whether the response to a challenge (None for the first message) may take
                long; if not, it is created immediately, on the client's thread.
        """
        self._login = login
        self._jobs = jobs
        self._may_block = may_block
        self._is_said = False
        self._message: bytes | None = None
        self._failure: AuthenticationFailed | None = None

    def prepare(self, challenge: bytes | None, resume: Callable[[], None]) -> bool:
        """See `Login`."""
        if not self._is_said and not self._may_block(challenge):
            self._message, self._is_said = self._say(challenge), True
        if self._is_said:
            if self._failure is not None:
                raise self._failure
            return True

        def on_done(message: bytes | None, failure: AuthenticationFailed | None) -> None:
            self._is_said, self._message, self._failure = True, message, failure
            resume()

        self._jobs.run(lambda: self._say(challenge), on_done)
        return False

    def first(self) -> bytes:
        """See `Login`."""
        return self._taken() or b""

    def answer(self, challenge: bytes) -> bytes | None:  # noqa: ARG002 - `prepare` had it
        """See `Login`."""
        return self._taken()

    def rejection(self, error: AuthenticationFailed) -> ConnectionFailed:
        """See `Login`."""
        return self._login.rejection(error)

    def _say(self, challenge: bytes | None) -> bytes | None:
        return self._login.first() if challenge is None else self._login.answer(challenge)

    def _taken(self) -> bytes | None:
        message, self._message, self._is_said = self._message, None, False
        return message
