"""The bearer token of one client: fetched by the login thread, shared, renewed in time.

A token is fetched when the first connection needs it, and again in the background from 80 % of its
lifetime on while there are connections. If a fetch fails, the old token remains in use until it
expires, and the fetch is retried after 1, 2, 4 … 60 s. A fetch that hangs delays only logins
without a valid token.

Invariants.
    At most one fetch is in progress. An expired token is never sent. After a rejection, one fresh
    token is tried immediately; if that is rejected, too, the login has failed.

Thread-safety: the client's thread; the provider runs on the login thread.
Source: KIP-255, KIP-768; kafka-python and aiokafka (`token()`), confluent-kafka (`oauth_cb`).
"""

import asyncio
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kprod.cluster.refresh_schedule import NEVER_MS
from kprod.errors import AuthenticationFailed
from kprod.interfaces import Token
from kprod.metrics.state_log import Event
from kprod.network.sasl.login_support import LoginSupport
from kprod.network.sasl.login_thread import as_failure
from kprod.network.sasl.token_forms import as_token
from kprod.peer_text import peer_text
from kprod.timer.timer import TimerTask

if TYPE_CHECKING:
    from collections.abc import Awaitable

REFRESH_SHARE = (0.76, 0.84)  # a share of the token's lifetime
_RETRY_S_MAX = 60
_LIFE_MS_MAX = 365 * 24 * 3_600_000

Fetch = Callable[[], object]


class TokenStore:
    """Holds one client's token."""

    def __init__(self, provider: object, argument: str, support: LoginSupport) -> None:
        """Start without a token; nothing is fetched yet.

        Args:
            provider: A function, or an object with a method `token`.
            argument: Argument for a function that takes one, like librdkafka's `oauth_cb`.
            support: Parts of the client.
        """
        self._provider = provider
        self._argument = argument
        self._support = support
        self._token: Token | None = None
        self._expires_ms = NEVER_MS
        self._refresh_ms = NEVER_MS
        self._is_used = False  # by a login; a token of unknown expiry is used only once
        self._is_fetching = False
        self._waiting: list[Callable[[], None]] = []
        self._failures = 0  # consecutive failures
        self._refresh: TimerTask | None = None
        self._has_second_chance = True
        self.failure: AuthenticationFailed | None = None

    @property
    def is_fetching(self) -> bool:
        """Whether a fetch is in progress."""
        return self._is_fetching

    def valid_token(self) -> Token | None:
        """Return a token that is valid now, if there is one."""
        if self._token is None or self._support.timer.now_ms >= self._expires_ms:
            return None
        self._is_used = True
        if self._support.timer.now_ms >= self._refresh_ms and self._refresh is None:
            self._fetch()  # no background fetch was due
        return self._token

    def is_fresh(self, resume: Callable[[], None]) -> bool:
        """Whether the token is fresh enough for another login.

        Args:
            resume: Called, if this returns False, when a fetch has ended.

        Returns:
            False for a token that expires soon, or of unknown expiry that was used.
        """
        now_ms = self._support.timer.now_ms
        is_of_unknown_end = self._expires_ms == NEVER_MS and self._is_used
        if self._token is not None and now_ms < self._refresh_ms and not is_of_unknown_end:
            return True
        self._waiting.append(resume)
        if not self._failures or self._refresh is None:  # else the next fetch has its time
            self._fetch()
        return False

    def need(self, resume: Callable[[], None]) -> None:
        """Fetch a token, unless a fetch is in progress.

        Args:
            resume: Called once on the client's thread when the fetch has ended, successfully or
                not.
        """
        self._waiting.append(resume)
        self._fetch()

    def rejected(self, token: Token | None) -> bool:
        """Record that a broker rejected a token.

        Args:
            token: The rejected token.

        Returns:
            True if another token is to be tried immediately.
        """
        if token is not self._token:
            return True  # replaced meanwhile
        self._drop()
        is_first, self._has_second_chance = self._has_second_chance, False
        return is_first

    def was_let_in(self) -> None:
        """Record that a broker accepted the token."""
        self._has_second_chance = True

    def close(self) -> None:
        """Discard the token, and fetch no other."""
        self._drop()
        self._waiting.clear()

    def _drop(self) -> None:
        self._token = None
        self._expires_ms = self._refresh_ms = NEVER_MS
        if self._refresh is not None:
            self._refresh.cancel()
            self._refresh = None

    def _fetch(self) -> None:
        if not self._is_fetching:
            self._is_fetching = True
            self._support.jobs.run(self._call_provider, self._take)

    def _call_provider(self) -> Token:
        """Call the application's provider, on the login thread."""
        try:
            found = call_provider(self._provider, self._argument)
            return as_token(found, self._support.clock.timestamp_ms() / 1_000)
        except AuthenticationFailed:
            raise
        except BaseException as error:
            raise as_failure(error, "the token provider raised") from error

    def _take(self, token: Token | None, failure: AuthenticationFailed | None) -> None:
        self._is_fetching = False
        self.failure = failure
        if token is not None:
            self._keep(token)
        elif failure is not None:
            self._note_failure(failure)
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()

    def _keep(self, token: Token) -> None:
        self._drop()
        self._token, self._failures, self._is_used = token, 0, False
        life_ms = _LIFE_MS_MAX
        now_ms = self._support.timer.now_ms
        if token.expires_at is not None:
            left_s = token.expires_at - self._support.clock.timestamp_ms() / 1_000
            life_ms = min(max(int(left_s * 1_000), 0), _LIFE_MS_MAX)
            self._expires_ms = now_ms + life_ms
            self._refresh_ms = now_ms + int(life_ms * self._support.rng.uniform(*REFRESH_SHARE))
            self._fetch_later(self._refresh_ms)
        self._support.state_log.note(
            Event.TOKEN_REFRESHED,
            principal=peer_text(token.principal) or "unknown",
            expires_in_s="unknown" if token.expires_at is None else life_ms // 1_000,
        )

    def _note_failure(self, failure: AuthenticationFailed) -> None:
        pause_s = min(1 << min(self._failures, 6), _RETRY_S_MAX)
        self._failures += 1
        self._support.state_log.note(Event.TOKEN_FAILED, reason=str(failure), again_in_s=pause_s)
        self._fetch_later(self._support.timer.now_ms + pause_s * 1_000)

    def _fetch_later(self, at_ms: int) -> None:
        if self._refresh is not None:
            self._refresh.cancel()
        self._refresh = TimerTask(self._refresh_now)
        self._support.timer.add_at(at_ms, self._refresh)

    def _refresh_now(self) -> None:
        self._refresh = None
        if self._support.is_connected():
            self._fetch()


def call_provider(provider: Any, argument: str) -> Any:  # noqa: ANN401 - the application's
    """Call a token provider; blocks until it returns.

    Args:
        provider: A function, or an object with a method `token`.
        argument: Argument for a function that takes one.

    Returns:
        Its result; a coroutine is run in a new event loop.
    """
    method = getattr(provider, "token", provider)
    found = method(argument) if _takes_one(method) else method()
    if not inspect.isawaitable(found):
        return found
    return asyncio.run(_awaited(found))


async def _awaited(found: "Awaitable[Any]") -> Any:  # noqa: ANN401 - as `call_provider`
    return await found


def _takes_one(function: Any) -> bool:  # noqa: ANN401 - the application's
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a built-in function has no signature
        return False
    return any(
        it.default is it.empty and it.kind in {it.POSITIONAL_ONLY, it.POSITIONAL_OR_KEYWORD}
        for it in parameters
    )
