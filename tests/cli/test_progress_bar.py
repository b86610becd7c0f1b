"""Bars on standard error that leave nothing where there is no terminal."""

import io
import sys

import pytest
from rich.progress import TextColumn

from kprod.cli.progress_bar import ProgressBar


class TerminalError(io.StringIO):
    """Standard error of a person."""

    def isatty(self) -> bool:
        """Say that it is one."""
        return True


def _shown(*, is_wanted: bool) -> bool:
    with ProgressBar(TextColumn("copied"), is_wanted=is_wanted) as progress:
        progress.advance(progress.add_task("", total=2))
    return not progress.disable


@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_pipe_gets_not_even_a_line_break(
    capsys: pytest.CaptureFixture[str], is_wanted: bool
) -> None:
    """Whichever version of rich is installed."""
    assert not _shown(is_wanted=is_wanted)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("is_wanted", "expected"), [(True, "copied"), (False, "")])
def test_a_terminal_shows_a_bar_that_is_wanted(
    monkeypatch: pytest.MonkeyPatch, is_wanted: bool, expected: str
) -> None:
    """And only such a one."""
    terminal = TerminalError()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert _shown(is_wanted=is_wanted) is is_wanted
    assert expected in terminal.getvalue()
    assert bool(terminal.getvalue()) is is_wanted
