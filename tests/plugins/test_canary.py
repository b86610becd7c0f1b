"""The search for secrets in all that kprod writes: it finds planted ones, in every form."""

import base64
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from kprod.errors import AuthenticationFailed
from tests.plugins.canary import Canary, Watch, forms

ROOT = Path(__file__).parent.parent.parent
SECRET = "pa\u2460ss-\u00a0wörd\\1"  # noqa: S105 - of this test

LEAKING = """
import base64
import logging
import sys

import pytest

from kprod.errors import AuthenticationFailed
from kprod.guarded_log import guarded_logger
from kprod.secret import Secret

PASSWORD = "correct horse"


@pytest.mark.parametrize("show", [
    lambda text: guarded_logger("kprod.network").debug("logging in with %s", text),
    lambda text: AuthenticationFailed(f"rejected: {base64.b64encode(b'user' + text.encode())}"),
    lambda text: print("the password is", text.encode().hex()),
    lambda text: print("the password is", text.encode("utf-16"), file=sys.stderr),
    lambda text: logging.getLogger("kprod.broker").warning("%r", [text]),
])
def test_leak(show):
    show(Secret(PASSWORD).reveal())


def test_nothing_is_shown():
    print(Secret(PASSWORD), AuthenticationFailed("rejected"))
    guarded_logger("kprod.network").debug("logging in with %s", Secret(PASSWORD))


def test_the_next_test_has_no_secret():
    print(PASSWORD)
"""


@pytest.mark.parametrize(
    "shown",
    [
        SECRET,
        repr(SECRET),
        ascii(SECRET.encode()),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        str(SECRET.encode("utf-16")),
        *(base64.b64encode(b"12"[:cut] + SECRET.encode() + b"345").decode() for cut in range(3)),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
    ],
)
def test_each_form_is_found(shown: str) -> None:
    """Alone, and within other text."""
    assert any(form in f"before {shown} after" for form in forms(SECRET))


def test_a_key_is_found_by_a_line_of_it() -> None:
    """The lines that all keys have are no secret."""
    key = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMG\nByqGSM49AgEGCCqG\n-----END PRIVATE KEY-----"
    assert any(form in "in a key: ByqGSM49AgEGCCqG" for form in forms(key))
    assert not any(form in "-----BEGIN PRIVATE KEY-----" for form in forms(key))


def test_locals_of_kprods_frames_are_searched() -> None:
    """Of the error and of each of its causes; not those of a test."""
    watch = Watch()
    watch.keep("correct horse")
    password = "correct horse"  # noqa: F841, S105 - a local of this frame
    with pytest.raises(AuthenticationFailed) as caught:
        raise AuthenticationFailed("rejected")
    watch.see_error(caught.value)
    assert watch.leaks == []
    namespace = {"KprodError": AuthenticationFailed}
    source = "def log_in(password):\n    raise KprodError('rejected')"
    from tests.plugins import canary  # noqa: PLC0415 - its idea of kprod's files

    exec(compile(source, f"{canary.SOURCE}/login.py", "exec"), namespace)  # noqa: S102 - a frame
    with pytest.raises(AuthenticationFailed) as caught:
        namespace["log_in"]("correct horse")
    watch.see_error(caught.value)
    assert watch.leaks == ["local password of log_in: 'correct horse'"]


def test_hooks_are_taken_back(caplog: pytest.LogCaptureFixture) -> None:
    """A test after one with a secret has nothing of it."""
    canary, before = Canary(), AuthenticationFailed.__init__
    canary.note("correct horse")
    assert AuthenticationFailed.__init__ is not before
    logging.getLogger("kprod").warning("correct horse")
    assert canary.end_test() == []  # no line of kprod's own
    assert AuthenticationFailed.__init__ is before
    assert caplog.messages == ["correct horse"]


@pytest.mark.slow
def test_planted_leaks_fail_their_tests(tmp_path: Path) -> None:
    """Each alone, whatever shows it; a test that shows stars passes."""
    (tmp_path / "test_leaking.py").write_text(LEAKING, encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "tests.plugins.canary"),
            *("-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(tmp_path)),
            str(tmp_path),
        ],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "7 passed, 5 errors" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("a secret of this test is shown by") == 5
