"""A line of the log that cannot be written fails nobody; Ctrl-C is never lost for it."""

import logging
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from kprod.guarded_log import GuardedLogger, guarded_logger

NAME = "kprod.test_guarded_log"


class _Failing(logging.Handler):
    """Raises at every line."""

    def __init__(self, fault: BaseException) -> None:
        super().__init__()
        self.fault = fault

    def emit(self, _: logging.LogRecord) -> None:
        """Raise."""
        raise self.fault


@pytest.fixture
def logger() -> Iterator[GuardedLogger]:
    """One of its own, with every level, which tells nobody else."""
    guarded = guarded_logger(NAME)
    guarded.target.setLevel(logging.DEBUG)
    guarded.target.propagate = False
    yield guarded
    guarded.target.handlers.clear()
    guarded.target.propagate = True
    guarded.target.setLevel(logging.NOTSET)


def _write_each(logger: GuardedLogger) -> None:
    logger.debug("a %s", 1)
    logger.info("a %s", 2)
    logger.warning("a %s", 3)
    logger.error("a %s", 4, exc_info=ValueError("told"))
    logger.critical("a %s", 5, exc_info=ValueError("told"))
    logger.log(logging.INFO, "a %s", 6, extra={"more": 7})
    try:
        int("told")
    except ValueError:
        logger.exception("a %s", 8)


def _in_thread(call: Callable[[], object]) -> list[BaseException]:
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised


def test_lines_are_those_of_the_library(
    logger: GuardedLogger, caplog: pytest.LogCaptureFixture
) -> None:
    """Texts, levels, errors, extra attributes, and the function that wrote them."""
    logger.target.addHandler(caplog.handler)
    _write_each(logger)
    records = caplog.records
    assert [record.getMessage() for record in records] == [f"a {n}" for n in (1, 2, 3, 4, 5, 6, 8)]
    assert [record.levelno // 10 for record in records] == [1, 2, 3, 4, 5, 2, 4]
    assert {record.funcName for record in records} == {"_write_each"}
    assert {record.name for record in records} == {NAME}
    assert [record.exc_info is not None for record in records] == [0, 0, 0, 1, 1, 0, 1]
    assert records[5].more == 7  # type: ignore[attr-defined]


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_nothing_is_raised_on_a_thread_of_its_own(
    logger: GuardedLogger, fault: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is."""
    monkeypatch.setattr(logging, "raiseExceptions", False)
    logger.target.addHandler(_Failing(fault()))
    assert _in_thread(lambda: _write_each(logger)) == []


def test_the_main_thread_passes_on_what_a_signal_handler_may_have_raised(
    logger: GuardedLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An `Exception` is the logging's own, and stays there."""
    monkeypatch.setattr(logging, "raiseExceptions", False)
    logger.target.addHandler(_Failing(ValueError()))
    _write_each(logger)
    for fault in (KeyboardInterrupt(), SystemExit(3)):
        logger.target.handlers[:] = [_Failing(fault)]
        with pytest.raises(type(fault)) as raised:
            logger.info("interrupted")
        assert raised.value is fault


def test_a_lost_line_is_told_on_stderr(
    logger: GuardedLogger, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, with the error."""
    logger.target.addHandler(_Failing(ValueError("no disk")))
    logger.info("what %s", "happened")
    said = capsys.readouterr().err
    assert (
        said
        == f"--- the logging of {NAME} raised ValueError: no disk; the line 'what %s' is lost ---\n"
    )


def test_a_stderr_that_raises_too_is_no_matter(
    logger: GuardedLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be the application's object."""

    class Closed:
        written = 0

        def write(self, _: str) -> None:
            self.written += 1
            raise KeyboardInterrupt

    closed = Closed()
    monkeypatch.setattr(sys, "stderr", closed)
    logger.target.addHandler(_Failing(ValueError()))
    assert _in_thread(lambda: logger.info("lost")) == []
    assert closed.written == 1


def test_a_logger_that_cannot_say_its_level_is_taken_for_silent(logger: GuardedLogger) -> None:
    """The logger's class may be the application's."""

    class Wordless(logging.Logger):
        def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the library's name
            raise ValueError(level)

    assert logger.is_enabled_for(logging.DEBUG)
    logger.target = Wordless("wordless")
    assert not logger.is_enabled_for(logging.DEBUG)


class _Keeping(logging.Handler):
    """Keeps the texts."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.texts.append(record.getMessage())


def test_a_line_is_given_up_where_a_handler_is_at_work(
    logger: GuardedLogger, capsys: pytest.CaptureFixture[str]
) -> None:
    """The thread inside it may wait for the one that writes the line."""
    handler = _Keeping()
    logger.target.addHandler(handler)
    is_inside, may_leave = threading.Event(), threading.Event()

    def work() -> None:
        with handler.lock:  # type: ignore[union-attr] # every handler of this kind has one
            is_inside.set()
            assert may_leave.wait(60)

    inside = threading.Thread(target=work)
    inside.start()
    assert is_inside.wait(60)
    logger.info("lost")
    assert "is at work for more than" in capsys.readouterr().err
    may_leave.set()
    inside.join()
    logger.info("written")
    assert handler.texts == ["written"]


def test_a_handler_without_a_lock_is_no_matter(logger: GuardedLogger) -> None:
    """As `logging.NullHandler`."""
    handler = _Keeping()
    logger.target.handlers[:] = [logging.NullHandler(), handler]
    logger.info("written")
    assert handler.texts == ["written"]
