"""The pages' examples run, their commands exist, and their outputs are as printed.

An example may speak of `localhost:9092`: it is given the address of a cluster of its own.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kprod.broker import EmbeddedCluster
from kprod.cli.group import main as kprod_command
from tests.docs.examples import ROOT, pages, read

PAGES = {str(path.relative_to(ROOT)): read(path.read_text(encoding="utf-8")) for path in pages()}
PROGRAMS = [name for name, page in PAGES.items() if page.program]
WITH_TESTS = [name for name, page in PAGES.items() if page.tests]
COMMANDS = [(name, words) for name, page in PAGES.items() for words in page.commands]

ADDRESS = "localhost:9092"
FILE_NAME = re.compile(r"\w+\.[a-z]+")
LIMIT_S = 60
WARNINGS = "ignore,default::ResourceWarning"
TOPICS = {"orders": 6}


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with kprod on its path; anything left open is a warning, and shown."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": WARNINGS}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_there_are_examples() -> None:
    """A reader that finds nothing would pass everything below."""
    assert len(PROGRAMS) > 5
    assert WITH_TESTS
    assert COMMANDS


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_page_runs(name: str, tmp_path: Path) -> None:
    """From its first example to its last, in order, with nothing on standard error."""
    page = PAGES[name]
    script = tmp_path / f"{Path(name).stem}_page.py"
    with EmbeddedCluster(brokers=3, topics=TOPICS) as cluster:
        program = page.program.replace(ADDRESS, cluster.bootstrap_servers)
        script.write_text(program, encoding="utf-8")
        result = run(str(script), cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    rest = result.stdout
    for wanted in page.printed:
        _, found, rest = rest.partition(wanted)
        assert found, f"{wanted!r} is not in the output: {result.stdout!r}"


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_TESTS)
def test_the_tests_of_a_page_pass(name: str, tmp_path: Path) -> None:
    """Each in a file of its own, with the plugin that an installed kprod brings."""
    for line, text in PAGES[name].tests:
        file = tmp_path / f"test_{Path(name).stem}_{line}.py"
        file.write_text(text, encoding="utf-8")
    options = ["-p", "no:kprod", "-p", "pytest_kprod", "-p", "no:randomly", "-q", "-rp"]
    result = run("-m", "pytest", *options, str(tmp_path), cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    passed = set(re.findall(r"^PASSED (\S+\.py)::", result.stdout, re.MULTILINE))
    assert passed == {file.name for file in tmp_path.glob("test_*.py")}


@pytest.mark.parametrize(("name", "words"), COMMANDS)
def test_a_command_is_one(
    name: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its options parse, or the Makefile has it; it is not run. A file that it names is there."""
    program, *rest = words
    monkeypatch.chdir(tmp_path)
    for word in filter(FILE_NAME.fullmatch, rest):
        Path(word).touch()
    if program == "make":
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        assert {word for word in rest if "=" not in word} <= targets, name
        return
    with kprod_command.context_class(kprod_command, **kprod_command.context_settings) as context:
        command: click.Command | None = kprod_command
        while isinstance(command, click.Group) and rest:
            word, *rest = rest
            command = command.get_command(context, word)
            assert command is not None, f"{name}: there is no kprod {word}"
        assert command is not None
        if not rest:
            return  # the command's name in a sentence
        assert command.make_context(" ".join(words), rest, parent=context) is not None
