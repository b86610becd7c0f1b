"""Logging that raises on a thread of kprod's: no record is lost for it, and nobody waits for ever.

Filters, handlers and formatters are the application's code. One that raises runs in the middle of
whatever writes the line.
"""

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import kprod
from kprod.broker import EmbeddedCluster
from kprod.config import NetworkSettings
from kprod.errors import KprodError
from kprod.network.connection_context import NetworkIO, system_io
from kprod.producer.wiring import Environment
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

WAIT_S = 30.0  # ends a broken test, never its rhythm
RECORDS = 4
LINES_MAX = 400  # lines logged between start and close


class _Planted(BaseException):
    """Not even an `Exception`."""


def _is_own_thread(name: str = "kprod-sender") -> bool:
    return threading.current_thread().name.startswith(name)


class _FailingHandler(logging.Handler):
    """Raises at some lines of the sender's thread."""

    def __init__(self, fault: type[BaseException], fails: Callable[[int], bool]) -> None:
        super().__init__(logging.DEBUG)
        self.fault = fault
        self.fails = fails
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count the line, and raise if it is one of those."""
        if not _is_own_thread():
            return
        self.count += 1
        if self.fails(self.count):
            raise self.fault(record.getMessage())


class _DyingSelector:
    """A selector that works until it is told to die."""

    def __init__(self, selector: Any) -> None:
        self._selector = selector
        self.is_dying = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)

    def select(self, timeout_ms: int) -> Any:
        if self.is_dying:
            raise RuntimeError("the selector died")
        return self._selector.select(timeout_ms)


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker, one topic of one partition."""
    with EmbeddedCluster(brokers=1, topics={"orders": 1}) as running:
        yield running


@pytest.fixture
def kprod_logger() -> Iterator[logging.Logger]:
    """The parent of all loggers of kprod: every level, and no handler but the test's."""
    logger = logging.getLogger("kprod")
    level, handlers = logger.level, logger.handlers[:]
    raises = logging.raiseExceptions
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logging.raiseExceptions = False
    yield logger
    logging.raiseExceptions = raises
    logger.propagate = True
    logger.setLevel(level)
    logger.handlers[:] = handlers


class _Life:
    """A producer from its making to its end, with lines of every kind."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.selectors: list[_DyingSelector] = []
        self.told: list[KprodError | None] = []
        cluster.faults.clear()
        self.producer = kprod.Producer(
            bootstrap_servers=cluster.bootstrap_servers,
            linger_ms=60_000,
            max_block_ms=int(WAIT_S * 1_000),
            retry_backoff_ms=1,
            reconnect_backoff_ms=1,
            reconnect_backoff_max_ms=1,
            environment=Environment(io=self._io),
        )

    def _io(self, settings: NetworkSettings) -> NetworkIO:
        opened = system_io(settings)
        self.selectors.append(_DyingSelector(opened.selector))
        return opened._replace(selector=self.selectors[0])

    def _tell(self, _: object, error: KprodError | None) -> None:
        self.told.append(error)
        raise ValueError("a callback that fails")  # which is a line, too

    def send(self) -> list[kprod.RecordFuture]:
        """Send some records, as one batch; they must be accepted."""
        try:
            futures = self.offer()
        except KprodError as error:
            raise AssertionError("a record was rejected") from error
        self.producer.flush(0)
        return futures

    def offer(self) -> list[kprod.RecordFuture]:
        """Send some records, which may be rejected."""
        return [
            self.producer.send("orders", b"%d" % n, on_delivery=self._tell) for n in range(RECORDS)
        ]

    def deliver(self) -> None:
        """Have records delivered in spite of a rejection, a split and a lost connection."""
        faults = self.cluster.faults
        faults.fail_next(ApiKey.PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        futures = self.send()
        assert [future.exception(WAIT_S) for future in futures] == [None] * RECORDS
        faults.fail_next(ApiKey.PRODUCE, ErrorCode.MESSAGE_TOO_LARGE)
        futures = self.send()
        assert [future.exception(WAIT_S) for future in futures] == [None] * RECORDS
        faults.disconnect(ApiKey.PRODUCE)
        futures = self.send()
        assert [future.exception(WAIT_S) for future in futures] == [None] * RECORDS
        assert self.producer.flush(WAIT_S) == 0
        assert self.told == [None] * (3 * RECORDS)

    def close(self) -> None:
        """Close: everything is delivered, and the thread ends."""
        futures = self.send()
        assert self.producer.close(WAIT_S) == 0
        assert [future.exception(0) for future in futures] == [None] * RECORDS

    def die(self) -> None:
        """Let the sender die: records sent fail with the reason, and close returns."""
        self.selectors[0].is_dying = True
        futures = []
        rejected = None
        while rejected is None:  # it dies at the end of its present sleep, which a send ends
            try:
                futures += self.offer()
                futures[-1].exception(WAIT_S)
            except KprodError as error:
                rejected = error
        assert "the sender thread died" in str(rejected)
        self.producer.close(WAIT_S)  # counts records that had failed, or had not yet
        assert self.producer.close(WAIT_S) == 0
        for future in futures:
            assert "the sender thread died" in str(future.exception(0))

    def check_end(self) -> None:
        """Nothing is accepted any more, and nothing was settled twice or not at all."""
        with pytest.raises(KprodError):
            self.producer.send("orders", b"late")
        assert self.producer.flush(WAIT_S) == 0
        assert self.producer._kprod.thread.has_ended


def _live(cluster: EmbeddedCluster, ending: str) -> None:
    life = _Life(cluster)
    life.deliver()
    life.close() if ending == "closed" else life.die()
    life.check_end()


def _is_failing(scope: str, at: int, line: int) -> bool:
    return line == at if scope == "one line" else line >= at


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["closed", "died"])
@pytest.mark.parametrize("fault", [ValueError, _Planted])
@pytest.mark.parametrize("scope", ["one line", "all lines from there on"])
def test_logging_that_raises_at_any_line_loses_nothing(
    cluster: EmbeddedCluster,
    kprod_logger: logging.Logger,
    fault: type[BaseException],
    ending: str,
    scope: str,
) -> None:
    """Through retry, split, a lost connection, and the end; at DEBUG too."""
    for at in range(1, LINES_MAX):
        handler = _FailingHandler(fault, partial(_is_failing, scope, at))
        kprod_logger.handlers[:] = [handler]
        _live(cluster, ending)
        kprod_logger.handlers[:] = []
        if handler.count < at:
            assert at > 10  # it has seen the whole life
            return
    raise AssertionError(f"a life has more than {LINES_MAX} lines")


def test_a_record_after_a_line_that_raised_is_settled(
    cluster: EmbeddedCluster, kprod_logger: logging.Logger
) -> None:
    """The producer was healthy before, and knows the topic: it accepts records, and ends them."""
    producer = kprod.Producer(bootstrap_servers=cluster.bootstrap_servers, retry_backoff_ms=1)
    assert producer.send("orders", b"before").exception(WAIT_S) is None
    kprod_logger.handlers[:] = [_FailingHandler(_Planted, lambda _: True)]
    cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert _outcome(producer) is None
    assert _outcome(producer) is None
    assert producer.close(WAIT_S) == 0


def _outcome(producer: kprod.Producer) -> str | None:
    try:
        producer.send("orders", b"").result(WAIT_S)
    except KprodError as error:
        return str(error)
    return None


def test_close_returns_though_its_last_line_raises(
    cluster: EmbeddedCluster, kprod_logger: logging.Logger
) -> None:
    """The sender's thread writes it, behind everything that is settled."""

    class Failing(logging.Handler):
        is_over = False

        def emit(self, record: logging.LogRecord) -> None:
            self.is_over |= record.getMessage().endswith(" closed")
            if self.is_over and _is_own_thread():
                raise _Planted

    producer = kprod.Producer(bootstrap_servers=cluster.bootstrap_servers)
    assert producer.send("orders", b"").exception(WAIT_S) is None
    kprod_logger.handlers[:] = [Failing()]
    assert producer.close(WAIT_S) == 0
    assert producer._kprod.thread.has_ended


class _FailingFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        raise _Planted(record.msg)


class _FailingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        raise _Planted(record.msg)


def _fail_as_filter(logger: logging.Logger, patch: pytest.MonkeyPatch) -> None:
    handler = logging.NullHandler()
    handler.handle = logging.Handler.handle.__get__(handler)  # type: ignore[method-assign]
    handler.addFilter(_OwnThread(_FailingFilter().filter))
    patch.setattr(logger, "handlers", [handler])


def _fail_as_formatter(logger: logging.Logger, patch: pytest.MonkeyPatch) -> None:
    handler = logging.StreamHandler()
    handler.addFilter(lambda _: _is_own_thread())
    handler.setFormatter(_FailingFormatter())
    patch.setattr(logger, "handlers", [handler])


def _fail_as_record_factory(logger: logging.Logger, patch: pytest.MonkeyPatch) -> None:
    usual = logging.getLogRecordFactory()

    def make(*args: Any, **kwargs: Any) -> logging.LogRecord:
        if _is_own_thread():
            raise _Planted(args[4])
        return usual(*args, **kwargs)

    patch.setattr(logging, "_logRecordFactory", make)
    patch.setattr(logger, "handlers", [logging.NullHandler()])


class _OwnThread:
    """A filter that does what another does, on the sender's thread alone."""

    def __init__(self, check: Callable[[logging.LogRecord], bool]) -> None:
        self.check = check

    def filter(self, record: logging.LogRecord) -> bool:
        """Let lines of other threads through."""
        return not _is_own_thread() or self.check(record)


@pytest.mark.parametrize("ending", ["closed", "died"])
@pytest.mark.parametrize("plant", [_fail_as_filter, _fail_as_formatter, _fail_as_record_factory])
def test_every_part_of_logging_may_raise(
    cluster: EmbeddedCluster,
    kprod_logger: logging.Logger,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[logging.Logger, pytest.MonkeyPatch], None],
    ending: str,
) -> None:
    """Filters, formatters and record factories, at every line."""
    plant(kprod_logger, monkeypatch)
    _live(cluster, ending)


@pytest.mark.parametrize("fault", [ValueError, _Planted])
def test_the_broker_s_thread_outlives_its_logging(
    cluster: EmbeddedCluster, kprod_logger: logging.Logger, fault: type[BaseException]
) -> None:
    """A connection that sends nonsense is a line; the other connections continue."""

    class Failing(logging.Handler):
        count = 0

        def emit(self, record: logging.LogRecord) -> None:
            if _is_own_thread("kprod-broker"):
                self.count += 1
                raise fault(record.msg)

    handler = Failing()
    kprod_logger.handlers[:] = [handler]
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), WAIT_S) as stranger:
        stranger.sendall(b"\x00\x00\x00\x08\x7f\xff\x00\x00\x00\x00\x00\x00")
        assert stranger.recv(1) == b""
    assert handler.count
    with kprod.Producer(
        bootstrap_servers=cluster.bootstrap_servers, max_block_ms=int(WAIT_S * 1_000)
    ) as producer:
        assert producer.send("orders", b"").exception(WAIT_S) is None


def test_an_error_whose_text_cannot_be_made_ends_the_sender_as_any_other(
    cluster: EmbeddedCluster, kprod_logger: logging.Logger
) -> None:
    """The class of what ends the sender may be the application's own."""

    class Wordless(BaseException):
        def __str__(self) -> str:
            raise ValueError("no words")

    kprod_logger.handlers[:] = [_FailingHandler(Wordless, lambda _: True)]
    life = _Life(cluster)
    life.deliver()

    def select(_: int) -> Any:
        raise Wordless

    life.selectors[0].select = select  # type: ignore[assignment,method-assign]
    future = life.producer.send("orders", b"")
    assert "the sender thread died of Wordless" in str(future.exception(WAIT_S))
    assert life.producer.close(WAIT_S) == 0
    life.check_end()


def test_a_signal_while_closing_is_raised_and_close_continues_when_called_again(
    cluster: EmbeddedCluster, kprod_logger: logging.Logger
) -> None:
    """Exceptions of logging on the main thread may be a signal handler's: Ctrl-C is never lost."""

    class Interrupted(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().endswith(" closing"):
                raise KeyboardInterrupt

    producer = kprod.Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000)
    future = producer.send("orders", b"waits")
    kprod_logger.handlers[:] = [Interrupted()]
    with pytest.raises(KeyboardInterrupt):
        producer.close()
    kprod_logger.handlers[:] = []
    assert future.exception(WAIT_S) is None  # linger was cut short before the line
    assert producer.close(WAIT_S) == 0
    assert producer._kprod.thread.has_ended


def test_an_error_of_logging_on_the_caller_s_thread_keeps_close_from_nothing(
    cluster: EmbeddedCluster, kprod_logger: logging.Logger
) -> None:
    """`close` is complete though its own line has raised."""

    class Failing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ValueError(record.msg)

    producer = kprod.Producer(bootstrap_servers=cluster.bootstrap_servers)
    future = producer.send("orders", b"waits")
    kprod_logger.handlers[:] = [Failing()]
    assert producer.close(WAIT_S) == 0
    assert future.exception(0) is None
    assert producer._kprod.thread.has_ended


class _ClosingHandler(logging.Handler):
    """Closes a producer while it writes a line of the application, as a signal handler may."""

    def __init__(self, close: Callable[[], object]) -> None:
        super().__init__(logging.DEBUG)
        self.close_producer = close

    def emit(self, record: logging.LogRecord) -> None:
        """Close it, with the lock that `logging` gives to a handler at work."""
        if record.name == "application":
            self.close_producer()


def test_close_returns_though_its_thread_is_inside_a_handler_of_the_log(
    cluster: EmbeddedCluster, kprod_logger: logging.Logger
) -> None:
    """The sender's lines go to the same handler; they are given up, and the sender ends."""
    producer = kprod.Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000)
    future = producer.send("orders", b"before")
    undelivered: list[int] = []
    handler = _ClosingHandler(lambda: undelivered.append(producer.close()))
    kprod_logger.addHandler(handler)
    application = logging.getLogger("application")
    application.handlers[:], application.propagate = [handler], False
    application.setLevel(logging.INFO)
    thread = threading.Thread(target=application.info, args=("a line",), daemon=True)
    thread.start()
    thread.join(WAIT_S)
    application.handlers.clear()
    assert undelivered == [0]
    assert future.exception(0) is None
