"""Finds the runnable parts of a page of Markdown: Python, pytest files, commands, outputs.

A page's Python is one program: what a reader meets in order is run in order, each line on the line
where the page has it, so that a traceback names the place. Collecting each example as a test of its
own, as sybil and pytest-markdown-docs do, would not stand a random order or two workers.

Python whose first line is `# file: NAME` is a file of its own, which a test of its page runs.

Marks, in a comment on the line before a fence, which readers do not see:
`<!-- not run: why -->` leaves the example out; `<!-- printed -->` before a `text` fence says that
the program prints those lines, in their turn.

Thread-safety: values.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]

_NOT_RUN = re.compile(r"<!-- not run: .+ -->")
_PRINTED = re.compile(r"<!-- printed -->")
_TEST = re.compile(r"^(?:async )?def test_", re.MULTILINE)
_FILE = re.compile(r"# file: (\S+)\n")
_OWN_COMMANDS = ("kprod ", "make ")


class Example(NamedTuple):
    """A piece of a page's code.

    Attributes:
        line: Line number of its first line in the page, from 1.
        text: The code, without the fence.
    """

    line: int
    text: str


class Page(NamedTuple):
    """A page's code, by its use.

    Attributes:
        program: All Python that is run as one.
        files: Texts by names, of Python that begins with `# file: NAME`.
        tests: Python with tests.
        printed: Outputs of the program.
        commands: Words of kprod's own commands.
    """

    program: str
    files: Mapping[str, str]
    tests: Sequence[Example]
    printed: Sequence[str]
    commands: Sequence[Sequence[str]]


def pages() -> list[Path]:
    """Return the README and every page of the site."""
    docs = ROOT / "docs"
    found = (path for path in docs.rglob("*.md") if path.parent.name != "changes")
    return [ROOT / "README.md", *sorted(found)]


def read(text: str) -> Page:
    """Take a page apart.

    Args:
        text: Markdown.

    Returns:
        Its code; a program without code is empty.
    """
    lines: dict[int, str] = {}
    files: dict[str, str] = {}
    tests, printed, commands = [], [], []
    mark = ""
    for token in MarkdownIt().parse(text):
        kind = token.info.split(" ")[0] if token.type == "fence" else ""
        if kind == "python" and not _NOT_RUN.search(mark):
            example = Example((token.map or [0])[0] + 2, token.content)
            named = _FILE.match(token.content)
            if named is not None:
                files[named[1]] = token.content
            elif _TEST.search(token.content):
                tests.append(example)
            else:
                lines |= dict(enumerate(token.content.splitlines(), example.line))
        elif kind == "text" and _PRINTED.search(mark):
            printed.append(token.content)
        elif kind == "sh":
            commands += list(_commands(token.content.splitlines()))
        elif token.type == "inline":
            codes = (child.content for child in token.children or () if child.type == "code_inline")
            commands += list(_commands(codes))
        mark = token.content if token.type == "html_block" else ""
    program = "\n".join(lines.get(number, "") for number in range(1, max(lines, default=0) + 1))
    return Page(program, files, tests, printed, commands)


def _commands(lines: Iterator[str] | Sequence[str]) -> Iterator[list[str]]:
    """The lines that call kprod's own programs, as words."""
    for line in lines:
        if line.startswith(_OWN_COMMANDS):
            yield shlex.split(line, comments=True)
