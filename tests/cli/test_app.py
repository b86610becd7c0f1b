"""The command line: exit codes for scripts, one line for people, completion for shells."""

import os
import subprocess
import sys

import click
import pytest

import kprod
from kprod.cli import app as cli
from kprod.cli import broker
from kprod.cli.entry import main
from kprod.errors import ConfigError


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` prints name and version."""
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"kprod {kprod.__version__}\n"


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["-h"], ["demo", "--help"], ["broker", "-h"]]
)
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Help is a response, not an error, and so is a call without a command."""
    assert cli.run(arguments) == 0
    assert "Usage: kprod" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["fly"],
        ["--fly"],
        ["demo", "surplus"],
        ["broker", "--port", "70000"],
        ["broker", "--brokers", "0"],
        ["broker", "--topic", ":3"],
        ["broker", "--topic", "orders:0"],
        ["broker", "--topic", "orders:x"],
        ["broker", "--topic", "orders:" + "9" * 50],
    ],
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and one line that begins with the program's name."""
    assert cli.run(arguments) == cli.EXIT_USAGE
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err.startswith("kprod: ")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("two\n  lines"), 2, "kprod: two lines\n"),
        (OSError(98, "Address already in use"), 1, "kprod: [Errno 98] Address already in use\n"),
        (TimeoutError(), 1, "kprod: TimeoutError\n"),
        (KeyboardInterrupt(), 130, "kprod: interrupted\n"),
        (click.Abort(), 130, "kprod: interrupted\n"),
    ],
)
def test_failures_are_one_line_and_a_code(
    error: BaseException,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever a command raises on purpose ends in one line and a code for scripts."""

    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(broker.broker, "callback", fail)
    assert cli.run(["broker"]) == code
    assert capsys.readouterr().err.lstrip() == line  # the shell's ^C stands on its own line


def test_a_command_may_return_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A demonstration that found a difference ends with 1 and no error line."""
    monkeypatch.setattr(broker.broker, "callback", lambda **_: 1)
    assert cli.run(["broker"]) == 1


def test_topics_have_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """`name:partitions`, or one partition; the last word on a topic counts."""
    seen: list[dict[str, object]] = []

    def note(**options: object) -> None:
        seen.append(options)

    monkeypatch.setattr(broker.broker, "callback", note)
    typed = ["broker", "--topic", "orders:6", "--topic", "audit", "--topic", "orders:7"]
    assert cli.run(typed) == 0
    topics = {"orders": 7, "audit": 1}
    assert [options["topics"] for options in seen] == [topics]


def test_without_click_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The library installs without its command line; the command says how to get it."""
    monkeypatch.setitem(sys.modules, "click", None)
    monkeypatch.delitem(sys.modules, "kprod.cli.app")
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    assert capsys.readouterr().err == "kprod: click is missing; run: pip install 'kprod[cli]'\n"


@pytest.mark.slow
def test_shell_completion() -> None:
    """The shell's question about `kprod de` is answered with `demo`."""
    question = {"_KPROD_COMPLETE": "bash_complete", "COMP_WORDS": "kprod de", "COMP_CWORD": "1"}
    answer = subprocess.run(
        [sys.executable, "-m", "kprod.cli"],
        env={**os.environ, **question},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert answer.stdout == "plain,demo\n"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["dum"], "no such command: 'dum'; did you mean dump? (kprod --help tells more)"),
        (["fly"], "there are demo, broker, dump, produce, consume, perf, topics"),
        (["producr"], "did you mean produce?"),
        (["send"], "did you mean produce?"),
        (["topic", "list"], "did you mean topics?"),
        (["dump", "--topc", "orders"], "Did you mean '--topic'? (kprod dump --help tells more)"),
        (["dump", "-t", "orders"], "give --bootstrap localhost:9092"),
        (["produce", "-b", "localhost:9092"], "(kprod produce --help tells more)"),
        (["produce", "-b", "h:1", "-t", "t", "-X", "lingr.ms=5"], "did you mean linger.ms?"),
    ],
)
def test_a_mistake_gets_a_hint(
    arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The nearest command, or where to read on."""
    assert cli.run(arguments) == cli.EXIT_USAGE
    said = capsys.readouterr().err
    assert hint.replace("'", "") in said.replace("'", "")  # click 8.2 quotes no options


@pytest.mark.parametrize(
    "arguments",
    [
        ["dump", "-b", "localhost", "-t", "orders"],
        ["produce", "-b", "localhost", "-t", "orders"],
        ["demo", "--bootstrap", "localhost"],
    ],
)
def test_an_address_without_a_port_is_a_mistake_of_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that shows how to write it, and no traceback."""
    assert cli.run(arguments) == cli.EXIT_USAGE
    line = capsys.readouterr().err
    assert line.startswith("kprod: bootstrap")
    assert "'localhost' has no port; write localhost:9092" in line
