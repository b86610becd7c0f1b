"""During each test: no secret is in a line of kprod's log, in an error, or in the output.

Every password, token and key of kprod is a `Secret`, and those of an embedded cluster are in its
`BrokerSecurity`; both are noted here when they are made, whichever test makes them. From then on to
the test's end each text that kprod writes is searched for them: lines of every level (written or
not), the texts of errors, the locals of kprod's frames in tracebacks that `pytest.raises` catches,
and the captured output. A secret is found as it is, as `repr` escapes it, in hexadecimal, in base64
at any place of a longer text, and in UTF-16.

A test without a secret costs nothing. A text shorter than `SECRET_LENGTH_MIN` is not searched for,
since it may be a part of any word.

Thread-safety: `Watch` any thread, the rest the thread of the tests.
"""

import base64
import sys
from collections import deque
from collections.abc import Generator, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import pytest

import kprod
from kprod.broker import BrokerSecurity
from kprod.errors import KprodError
from kprod.guarded_log import GuardedLogger
from kprod.secret import Secret

SECRET_LENGTH_MIN = 6
SECRETS_MAX = 64
"""Searched for at a time, the newest; a test may make thousands of tokens."""

SOURCE = str(Path(kprod.__file__).parent)
_BYTES_OF_A_GROUP = 3  # of base64, which are four characters
_CUT_AT_THE_START = (0, 2, 3)  # characters that depend on bytes before the secret, by their number


def forms(secret: str) -> frozenset[str]:
    """Write a secret in all forms that are searched for.

    Args:
        secret: Any text.

    Returns:
        Texts, of which one is in any text that shows the secret.
    """
    lines = [line for line in secret.splitlines() if not line.startswith("-----")]
    text = max(lines, key=len, default=secret)  # a key may be shown in lines
    plain = text.encode("utf-8", "surrogatepass")
    wide = text.encode("utf-16-le", "surrogatepass")
    found = {text, repr(text)[1:-1], repr(plain)[2:-1], plain.hex(), plain.hex().upper()}
    found |= {wide.decode("latin-1"), repr(wide)[2:-1]}
    for before in range(_BYTES_OF_A_GROUP):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            shown = encode(bytes(before) + plain).decode().rstrip("=")
            end = len(shown) - bool((before + len(plain)) % _BYTES_OF_A_GROUP)
            found.add(shown[_CUT_AT_THE_START[before] : end])
    return frozenset(form for form in found if len(form) >= SECRET_LENGTH_MIN)


class Watch:
    """The secrets of one test, and the places where one was shown.

    Attributes:
        leaks: A description of each place.

    Thread-safety: any thread.
    """

    def __init__(self) -> None:
        """Know no secret."""
        self._secrets: deque[frozenset[str]] = deque(maxlen=SECRETS_MAX)
        self.leaks: list[str] = []

    @property
    def is_active(self) -> bool:
        """Whether there is a secret."""
        return bool(self._secrets)

    def keep(self, secret: str) -> None:
        """Search for a secret from now on."""
        found = forms(secret)
        if found and found not in self._secrets:
            self._secrets.append(found)

    def see(self, place: str, text: str) -> None:
        """Search a text.

        Args:
            place: The place of the text, for the error.
            text: Written by kprod.
        """
        for secret in tuple(self._secrets):
            if any(form in text for form in secret):
                self.leaks.append(f"{place}: {text[:2_000]}")
                return

    def see_traceback(self, traceback: TracebackType | None) -> None:
        """Search the locals of kprod's frames."""
        for frame in _frames(traceback):
            code = frame.f_code
            for name, value in frame.f_locals.items():
                self.see(f"local {name} of {code.co_qualname}", _shown(value))

    def see_error(self, error: BaseException) -> None:
        """Search an error, its causes, and the frames of each."""
        seen: list[BaseException] = []
        ahead: list[BaseException | None] = [error]
        while ahead:
            found = ahead.pop()
            if found is None or any(found is it for it in seen):
                continue
            seen.append(found)
            if isinstance(found, KprodError):
                self.see("error", f"{_shown(found)} {found} {getattr(found, '__notes__', '')}")
            self.see_traceback(found.__traceback__)
            ahead += [found.__cause__, found.__context__]


def _frames(traceback: TracebackType | None) -> Iterator[FrameType]:
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename.startswith(SOURCE):
            yield traceback.tb_frame
        traceback = traceback.tb_next


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - the application's, or a half-made object
        return f"<{type(error).__name__}>"


class Canary:
    """Notes secrets as they are made, and searches from the first one of a test to its end.

    Thread-safety: `note` any thread; the others the thread of the tests.
    """

    def __init__(self) -> None:
        """Listen to nothing."""
        self.watch = Watch()
        self._always, self._meanwhile = pytest.MonkeyPatch(), pytest.MonkeyPatch()

    def begin(self) -> None:
        """Note secrets from now on."""
        make_secret, check_users = Secret.__init__, BrokerSecurity.__post_init__

        def secret_made(secret: Secret, text: str) -> None:
            make_secret(secret, text)
            self.note(text)

        def users_given(security: BrokerSecurity) -> None:
            check_users(security)
            for password in security.users.values():
                self.note(password)

        self._always.setattr(Secret, "__init__", secret_made)
        self._always.setattr(BrokerSecurity, "__post_init__", users_given)

    def note(self, secret: object) -> None:
        """Search for a secret from now on, to the test's end."""
        if isinstance(secret, str) and len(secret) >= SECRET_LENGTH_MIN:
            if not self.watch.is_active:
                self._listen(self.watch)
            self.watch.keep(secret)

    def end_test(self) -> list[str]:
        """Forget the secrets of a test.

        Returns:
            Each place that showed one.
        """
        self._meanwhile.undo()
        leaks, self.watch = self.watch.leaks, Watch()
        return leaks

    def end(self) -> None:
        """Note nothing more."""
        self.end_test()
        self._always.undo()

    def _listen(self, watch: Watch) -> None:
        write, leave, make_error = (
            GuardedLogger._write,
            pytest.RaisesExc.__exit__,
            KprodError.__init__,
        )

        def line_written(
            logger: GuardedLogger, level: int, text: str, args: tuple[object, ...], **more: Any
        ) -> None:
            watch.see(f"a line of {logger.target.name}", text % args if args else text)
            given = more.get("exc_info")
            error = sys.exc_info()[1] if given is True else given
            if isinstance(error, BaseException):
                watch.see_error(error)
            write(logger, level, text, args, **more)

        def error_made(error: KprodError, *args: object) -> None:
            make_error(error, *args)
            watch.see(f"a {type(error).__name__}", repr(args))

        def raises_left(caught: Any, *raised: Any) -> bool:
            if raised[1] is not None:
                watch.see_error(raised[1])
            return leave(caught, *raised)

        self._meanwhile.setattr(GuardedLogger, "_write", line_written)
        self._meanwhile.setattr(GuardedLogger, "is_enabled_for", lambda *_: True)
        self._meanwhile.setattr(KprodError, "__init__", error_made)
        self._meanwhile.setattr(pytest.RaisesExc, "__exit__", raises_left)


_canary = Canary()


def pytest_configure() -> None:
    """Begin."""
    _canary.begin()


def pytest_unconfigure() -> None:
    """End."""
    _canary.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,  # noqa: ARG001 - the hook's
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that has shown a secret; its output is in the report of its teardown."""
    report = yield
    if call.when == "teardown":
        for name, text in report.sections:
            _canary.watch.see(name, text)
        leaks = _canary.end_test()
        if leaks and report.passed:
            report.outcome = "failed"
            report.longrepr = "\n".join(("a secret of this test is shown by", *leaks[:10]))
    return report
