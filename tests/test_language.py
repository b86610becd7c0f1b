"""Comments, docstrings, texts and pages use the field's words and whole sentences.

Each rule has a pattern and the words that are meant instead. Nothing but the tests may break one;
they have a number of places that may only fall, which was counted when the rules were made. A new
place fails the test, which names the rule, the place and the better word. `docs/developing.md` has
the rules in prose.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.test_tidy import ROOT, sources, text_of


class Rule(NamedTuple):
    """Words that are not used in prose.

    Attributes:
        name: Short, for reports.
        pattern: Matches the words, in any case.
        better: The words to write instead.
        in_tests: How many places below `tests` break it still.
    """

    name: str
    pattern: str
    better: str
    in_tests: int


RULES = (
    Rule(
        "a bare who as subject or object",
        r"(?:^|[.:;,(]\s|\b(?:and|of|for|to|by|with|those|one|wakes?|lets?)\s)who(?:ever)?\b",
        "the thread, caller, task, broker or user that …",
        1,
    ),
    Rule(
        "a clause with what as a noun",
        r"\bwhat (?:is|was|are|were|has|had|waits|comes|came|goes|stands|remains)\b",
        "the noun itself: 'waiting batches', not 'what waits'",
        52,
    ),
    Rule("anew", r"\banew\b", "again, or new", 0),
    Rule("in vain", r"\bin vain\b", "without success", 0),
    Rule("but for", r"\b(?:all|nothing|none|each|every\w*|those|any\w*) but for\b", "except", 0),
    Rule("by now", r"\bby now\b", "already", 1),
    Rule("goes on", r"\bgo(?:es)? on\b", "continues", 2),
    Rule("stand for be", r"\bstands? (?:in|at|behind|before|there|beside)\b", "is", 1),
    Rule("Begin as a docstring", r"^Begin\b", "the arguments alone, or the first state", 4),
    Rule("interpreter lock", r"\binterpreter(?:'s)? lock\b", "GIL", 0),
    Rule(
        "answer as a noun",
        r"\b(?:an?|the|its|each|every|one|no|any|that|this|whose|late|first|last|their|of|s')"
        r" answers?\b",
        "response",
        6,
    ),
    Rule(
        "a metaphor for a term",
        r"\b(?:bell|guest|express lane|rings? the|stands in line|in line for|doors?)\b",
        "wakeup, caller, direct path, queue, interface",
        2,
    ),
)

_INDIRECT_QUESTION = re.compile(  # "it says what is missing" has no noun that could be named
    r"\b(?:say|said|tell|told|ask|asked|show|shown|know|known|see|seen|find out|decide|learn)s?"
    r" (?:\w+ )?(?:who|what)\b",
    re.IGNORECASE,
)
_FEW_WORDS = re.compile(r"\w+\s+\w+")
_CODE = re.compile(r"`[^`]*`")
_FSTRING_MIDDLE = getattr(tokenize, "FSTRING_MIDDLE", -1)  # from Python 3.12 on


@cache
def prose_of(name: str) -> tuple[tuple[int, str], ...]:
    """Return a file's prose, line by line: number, and text without code."""
    lines = _of_page(text_of(name)) if name.endswith(".md") else _of_source(text_of(name))
    return tuple((number, _CODE.sub("", line.strip())) for number, line in lines)


def _of_page(text: str) -> Iterator[tuple[int, str]]:
    in_code = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield number, line


def _of_source(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")
        elif token.type in {tokenize.STRING, _FSTRING_MIDDLE}:
            content = token.string.strip("rbfRBF").strip("\"'")
            if _FEW_WORDS.search(content):
                yield from enumerate(content.split("\n"), token.start[0])


def places(rule: Rule) -> list[str]:
    """Return every place that breaks a rule, as path, line number and text."""
    own = Path(__file__).relative_to(ROOT).as_posix()
    return [
        f"{name}:{number}: {line}"
        for name in sources(".py", ".pyx", ".pxd", ".pyi", ".md")
        if name not in {own, "docs/pictures/batch_layout.py"}  # the second: labels of a drawing
        for number, line in prose_of(name)
        if breaks(rule, line)
    ]


def breaks(rule: Rule, line: str) -> bool:
    """Whether a line of prose breaks a rule."""
    line = _INDIRECT_QUESTION.sub("", line)
    return re.search(rule.pattern, line, re.IGNORECASE) is not None


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_prose_uses_the_field_s_words(rule: Rule) -> None:
    """Nowhere but in the tests, and there no more often than before."""
    found = places(rule)
    elsewhere = [place for place in found if not place.startswith("tests/")]
    assert not elsewhere, f"{rule.name}: write {rule.better}\n" + "\n".join(elsewhere)
    in_tests = [place for place in found if place.startswith("tests/")]
    assert len(in_tests) <= rule.in_tests, (
        f"{rule.name}, {len(in_tests)} places where {rule.in_tests} are allowed: "
        f"write {rule.better}\n" + "\n".join(in_tests)
    )


@pytest.mark.parametrize(
    ("sentence", "name"),
    [
        ("Who holds the lock wakes the others.", "a bare who as subject or object"),
        ("Wakes who waits.", "a bare who as subject or object"),
        ("What waits is sent first.", "a clause with what as a noun"),
        ("The name is resolved anew.", "anew"),
        ("It goes on with the next.", "goes on"),
        ("Begin with none.", "Begin as a docstring"),
        ("Holds the interpreter lock.", "interpreter lock"),
        ("Reads the answer.", "answer as a noun"),
        ("Rings the bell.", "a metaphor for a term"),
    ],
)
def test_a_breach_is_found(sentence: str, name: str) -> None:
    """Sentences as they once were written."""
    assert [rule.name for rule in RULES if breaks(rule, sentence)] == [name]


def test_an_indirect_question_is_none() -> None:
    """'What' behind a verb of saying asks, and names nothing."""
    assert not any(breaks(rule, "The text says what is missing.") for rule in RULES)


def test_prose_of_compiled_python_is_read() -> None:
    """A comment and a docstring of a .pyx file are among it."""
    lines = dict(prose_of("kprod/_core/record/batch_builder.pyx"))
    assert any("batch" in line for line in lines.values())
