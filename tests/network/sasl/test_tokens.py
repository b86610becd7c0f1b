"""One client's token: fetched when it is needed, renewed in time, and tried again when rejected."""

import asyncio
import random
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

from kprod.clock import ManualClock
from kprod.errors import AuthenticationFailed
from kprod.interfaces import Token
from kprod.metrics.state_log import Event, StateLog
from kprod.network.sasl.login_support import LoginSupport
from kprod.network.sasl.login_thread import Job, OnDone, as_failure
from kprod.network.sasl.tokens import TokenStore, call_provider
from kprod.timer.timer import Timer

if TYPE_CHECKING:
    from collections.abc import Callable


class HeldJobs:
    """Keeps jobs until they are released."""

    def __init__(self) -> None:
        """Start with none."""
        self.outcomes: deque[Callable[[], None]] = deque()
        self.held: list[tuple[Job, OnDone]] = []

    def run(self, job: Job, on_done: OnDone) -> None:
        """See `LoginJobs`."""
        self.held.append((job, on_done))

    def close(self) -> None:
        """See `LoginJobs`."""

    def finish(self) -> None:
        """Run the oldest."""
        job, on_done = self.held.pop(0)
        try:
            found = job()
        except BaseException as error:  # noqa: BLE001 - as the login thread
            on_done(None, as_failure(error, "the login failed:"))
        else:
            on_done(found, None)


class World:
    """A store with a provider that is told what to return."""

    def __init__(self) -> None:
        """Start without a token."""
        self.clock = ManualClock()
        self.timer = Timer(self.clock.now_ms())
        self.jobs = HeldJobs()
        self.noted: list[Event] = []
        self.returns: Any = None
        self.calls = 0
        self.is_connected = True
        support = LoginSupport(
            self.jobs,
            self.timer,
            self.clock,
            random.Random(1),
            StateLog("a", lambda event, _: self.noted.append(event)),
            lambda: self.is_connected,
        )
        self.store = TokenStore(self.provide, "", support)

    def provide(self) -> object:
        """As the application would."""
        self.calls += 1
        if isinstance(self.returns, BaseException):
            raise self.returns
        return self.returns

    def token(self, lifetime_s: float | None = 100.0) -> Token:
        """A token, which the provider returns from now on."""
        now_s = self.clock.timestamp_ms() / 1_000
        token = Token(f"t{self.calls}", None if lifetime_s is None else now_s + lifetime_s)
        self.returns = token
        return token

    def advance(self, seconds: float) -> None:
        """Let both clocks continue."""
        self.clock.advance(int(seconds * 1_000))
        self.timer.advance(self.clock.now_ms())

    def fetch(self) -> None:
        """Need a token, and get what the provider returns."""
        self.store.need(lambda: None)
        self.jobs.finish()


def test_many_need_one_token() -> None:
    """One call of the provider; all are told, once, when it has ended."""
    world, told = World(), []
    token = world.token()
    for number in range(5):
        world.store.need(lambda number=number: told.append(number))  # type: ignore[misc]
    assert world.store.valid_token() is None
    assert world.store.is_fetching
    world.jobs.finish()
    assert (told, world.calls) == ([0, 1, 2, 3, 4], 1)
    assert world.store.valid_token() == token
    assert not world.jobs.held


def test_it_is_renewed_in_the_background() -> None:
    """From three quarters of its life on, while the former one is in use."""
    world = World()
    first = world.token()
    world.fetch()
    world.advance(75)
    assert not world.jobs.held
    world.advance(10)
    assert world.store.valid_token() == first
    second = world.token()
    world.jobs.finish()
    assert world.store.valid_token() == second
    assert world.noted == [Event.TOKEN_REFRESHED] * 2


def test_nobody_is_asked_while_there_is_no_connection() -> None:
    """The next connection asks."""
    world = World()
    world.token()
    world.fetch()
    world.is_connected = False
    world.advance(200)
    assert not world.jobs.held
    assert world.store.valid_token() is None


def test_a_failure_keeps_the_former_token_to_its_end() -> None:
    """With pauses that double, and a warning each time."""
    world = World()
    first = world.token()
    world.fetch()
    world.returns = OSError("no route")
    world.advance(85)
    world.jobs.finish()
    for pause_s in (1, 2, 4):
        assert not world.jobs.held
        world.advance(pause_s)
        world.jobs.finish()
        assert world.store.valid_token() == first
    world.advance(8)
    assert world.store.valid_token() is None  # expired, and the fetch continues
    assert world.noted.count(Event.TOKEN_FAILED) == 4
    world.token()
    world.jobs.finish()
    assert world.store.valid_token() is not None


def test_logins_that_wait_do_not_shorten_the_pauses() -> None:
    """However often a connection asks, a provider that fails is called when its pause is over."""
    world, told = World(), []
    world.token()
    world.fetch()
    world.returns = OSError("no route")
    world.advance(85)
    world.jobs.finish()
    for number in range(50):
        assert not world.store.is_fresh(lambda number=number: told.append(number))  # type: ignore[misc]
    assert not world.jobs.held
    world.token()
    world.advance(1)
    world.jobs.finish()
    assert told == list(range(50))
    assert world.store.is_fresh(lambda: None)


def test_an_expired_token_is_never_used() -> None:
    """Nor one that has ended when the provider returns it."""
    world = World()
    world.token(1)
    world.fetch()
    world.advance(1)
    assert world.store.valid_token() is None
    world.jobs.held.clear()
    world = World()
    world.token(-1)
    world.fetch()
    assert world.store.valid_token() is None
    assert isinstance(world.store.failure, AuthenticationFailed)
    assert "expired 1 s ago" in str(world.store.failure)


def test_one_fresh_token_after_a_rejection() -> None:
    """The second rejection in a row is the login's; a broker that accepts one begins again."""
    world = World()
    world.token()
    world.fetch()
    token = world.store.valid_token()
    assert world.store.rejected(token)
    assert world.store.valid_token() is None
    assert world.store.rejected(token)  # another connection, with the same old token
    world.token()
    world.fetch()
    assert not world.store.rejected(world.store.valid_token())
    world.token()
    world.fetch()
    world.store.was_let_in()
    assert world.store.rejected(world.store.valid_token())


def test_a_token_of_unknown_end_is_good_for_one_login() -> None:
    """Another login on a connection fetches another."""
    world = World()
    world.token(None)
    world.fetch()
    assert world.store.is_fresh(lambda: None)
    world.store.valid_token()
    assert not world.store.is_fresh(lambda: None)
    assert world.store.is_fetching
    world.jobs.finish()
    assert world.store.is_fresh(lambda: None)


def test_closing_forgets_the_token() -> None:
    """And waits for nobody."""
    world = World()
    world.token()
    world.fetch()
    world.store.need(pytest.fail)
    world.store.close()
    assert world.store.valid_token() is None
    world.jobs.finish()


class Kafkas:
    """As kafka-python's."""

    def token(self) -> str:
        """A text."""
        return "kafka-python"


class Aiokafkas:
    """As aiokafka's."""

    async def token(self) -> str:
        """A text, later."""
        await asyncio.sleep(0)
        return "aiokafka"


def confluents(config: str) -> tuple[str, float]:
    """As confluent-kafka's."""
    return config, 5.0


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        (lambda: "own", "own"),
        (Kafkas(), "kafka-python"),
        (Aiokafkas(), "aiokafka"),
        (confluents, ("argument", 5.0)),
        (lambda config=None: config, None),
        (str, ""),
    ],
)
def test_providers_of_other_clients(provider: Any, expected: object) -> None:
    """They work unchanged."""
    assert call_provider(provider, "argument") == expected
