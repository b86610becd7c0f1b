"""Loggers whose lines cannot fail the code that writes them.

Filters, handlers, formatters, logger classes and record factories are the application's code, and
they run inside the call that writes a line. What they raise must not end the thread of the sender,
nor keep a step of `close` from being taken.

Rules. An `Exception` never leaves a call. Others (`KeyboardInterrupt`, `SystemExit`) never
leave a call on a thread of kprod's own. On the main thread they do, because signal handlers run
there and nowhere else, and what they raise must not be lost. So code that may run on the main
thread writes its line where an exception leaves nothing half done.

A line waits up to `LINE_WAIT_S` for a busy handler, and is then dropped. A signal handler may close
a producer while its thread is inside a handler's `emit`, which holds that handler's lock: the
sender, whose end the close waits for, must not wait for that lock. (If another thread enters a
handler after it was found free, the line waits without limit: `logging` has no write with a
timeout.)

Thread-safety: any thread; no lock of kprod's may be held.
Source: CPython's logging, whose own handlers treat an error in the same way.
"""

import logging
import sys
import threading
from collections.abc import Mapping

__all__ = ["GuardedLogger", "guarded_logger"]

LINE_WAIT_S = 0.5  # far longer than handlers take; a line may cost its thread this long
_CALLER = 3  # frames from the library's to that of the code that writes the line


class GuardedLogger:
    """Guards a logger of the standard library.

    Attributes:
        target: The logger, unguarded, for its settings.

    Thread-safety: any thread.
    """

    __slots__ = ("target",)

    def __init__(self, name: str) -> None:
        self.target: logging.Logger = logging.getLogger(name)

    def is_enabled_for(self, level: int) -> bool:
        """Whether a line of this level would be written.

        Args:
            level: The level, as in `logging`.

        Returns:
            False also if the application's logging raised.
        """
        try:
            return self.target.isEnabledFor(level)
        except BaseException as error:  # noqa: BLE001 - see the rules above
            _pass_on_a_signal(error)
            return False

    def debug(self, text: str, *args: object) -> None:
        """Write a line at level DEBUG; `args` go into the text by `%`."""
        self._write(logging.DEBUG, text, args)

    def info(self, text: str, *args: object) -> None:
        """Write a line about a usual event."""
        self._write(logging.INFO, text, args)

    def warning(self, text: str, *args: object) -> None:
        """Write a line about a condition that needs attention."""
        self._write(logging.WARNING, text, args)

    def error(self, text: str, *args: object, exc_info: BaseException | None = None) -> None:
        """Write a line about a failure, with the traceback of `exc_info`."""
        self._write(logging.ERROR, text, args, exc_info=exc_info)

    def exception(self, text: str, *args: object) -> None:
        """Write a line about the exception that is being handled, with its traceback."""
        self._write(logging.ERROR, text, args, exc_info=True)

    def critical(self, text: str, *args: object, exc_info: BaseException | None = None) -> None:
        """Write a line about a failure that nothing continues after."""
        self._write(logging.CRITICAL, text, args, exc_info=exc_info)

    def log(self, level: int, text: str, *args: object, extra: Mapping[str, object]) -> None:
        """Write a line of any level.

        Args:
            level: The level, as in `logging`.
            text: Format string with placeholders for `args`.
            *args: Values for the placeholders.
            extra: Attributes for the log record.
        """
        self._write(level, text, args, extra=extra)

    def _write(
        self,
        level: int,
        text: str,
        args: tuple[object, ...],
        *,
        exc_info: BaseException | bool | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        try:
            if not self.target.isEnabledFor(level):
                return
            _await_handlers(self.target)
            self.target.log(level, text, *args, exc_info=exc_info, extra=extra, stacklevel=_CALLER)
        except BaseException as error:  # noqa: BLE001 - see the rules above
            _pass_on_a_signal(error)
            _tell(self.target, text, error)


def guarded_logger(name: str) -> GuardedLogger:
    """Make a logger that cannot fail its caller.

    Args:
        name: The name, as for `logging.getLogger`.

    Returns:
        A new guard of the logger with that name.
    """
    return GuardedLogger(name)


def _await_handlers(logger: logging.Logger) -> None:
    """Wait until no other thread is inside a handler that gets the logger's lines.

    Raises:
        TimeoutError: One is at work for longer than `LINE_WAIT_S`.
    """
    above: logging.Logger | None = logger
    while above is not None:
        for handler in above.handlers:
            lock = handler.lock
            if lock is None:  # as `logging.NullHandler` has it
                continue
            if not lock.acquire(timeout=LINE_WAIT_S):
                raise TimeoutError(f"{handler!r} is at work for more than {LINE_WAIT_S} s")
            lock.release()
        above = above.parent if above.propagate else None


def _pass_on_a_signal(error: BaseException) -> None:
    """Raise again what a signal handler may have raised."""
    if not isinstance(error, Exception) and (
        threading.get_ident() == threading.main_thread().ident
    ):
        raise error


def _tell(logger: logging.Logger, text: str, error: BaseException) -> None:
    """Report on stderr that a line is lost, as `logging` does for its handlers."""
    try:
        if logging.raiseExceptions and sys.stderr:
            sys.stderr.write(
                f"--- the logging of {logger.name} raised {type(error).__name__}: {error};"
                f" the line {text!r} is lost ---\n"
            )
    except BaseException as again:  # noqa: BLE001 - as above
        _pass_on_a_signal(again)
