"""kprod's log lines during a run: none, or a handler of the application that raises at each."""

import io
import logging
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.sim.world import World


@contextmanager
def quiet_log() -> Generator[None]:
    """Keep kprod's log lines from being made: a run has thousands of faults."""
    logger = logging.getLogger("kprod")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


class _FailureEar(logging.Handler):
    """Hears of responses whose processing has failed, which only a bug of kprod's can cause."""

    def __init__(self, world: "World") -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        """Note the failure."""
        self._world.find("I8", f"{record.getMessage()}: {record.exc_info}")


@contextmanager
def heard_failures(world: "World") -> Generator[None]:
    """Find each response to a crew whose processing fails."""
    if not world.crew.exists:
        yield
        return
    logger, ear = logging.getLogger("kprod.network.client"), _FailureEar(world)
    before = logger.level, logger.propagate
    logger.addHandler(ear)
    logger.setLevel(logging.ERROR)
    logger.propagate = world.plan.raising_log
    try:
        yield
    finally:
        logger.removeHandler(ear)
        logger.setLevel(before[0])
        logger.propagate = before[1]


class _RaisingHandler(logging.Handler):
    """A handler of the application that cannot write its lines."""

    def __init__(self, world: "World") -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        """Raise; and see that no lock of kprod's is held."""
        self._world.count("log handler raises")
        kind = self._world.threads
        if kind is not None and kind.held[kind.current()]:
            self._world.find("I8", f"a lock is held while a line is logged: {record.msg}")
        raise RuntimeError("a handler of the simulation raises")


@contextmanager
def raising_log(world: "World") -> Generator[None]:
    """Have a handler that raises at each line, of every level."""
    logger = logging.getLogger("kprod")
    before = logger.level, logger.propagate
    handler = _RaisingHandler(world)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        with redirect_stderr(io.StringIO()):  # where kprod says that a line is lost
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]
