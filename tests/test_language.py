"""Comments, docstrings, texts and pages use the field's words and whole sentences.

Each rule has a pattern, and the words to write instead. A place that matches fails the test, which
names the rule, the place and the better words. `docs/developing.md` has the rules in prose.
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
    """

    name: str
    pattern: str
    better: str


RULES = (
    Rule(
        "a bare who as subject or object",
        r"(?:^|[.:;,(]\s|\b(?:and|of|for|to|by|with|those|one|wakes?|lets?)\s)who(?:ever)?\b",
        "the thread, caller, task, broker or user that …",
    ),
    Rule(
        "a clause with what as a noun",
        r"\bwhat (?:is|was|are|were|has|had|waits|comes|came|goes|stands|remains)\b",
        "the noun itself: 'waiting batches', not 'what waits'",
    ),
    Rule("anew", r"\banew\b", "again, or new"),
    Rule("in vain", r"\bin vain\b", "without success"),
    Rule("but for", r"\b(?:all|nothing|none|each|every\w*|those|any\w*) but for\b", "except"),
    Rule("by now", r"\bby now\b", "already"),
    Rule("goes on", r"\bgo(?:es)? on\b", "continues"),
    Rule("stand for be", r"\bstands? (?:in|at|behind|before|there|beside)\b", "is"),
    Rule("Begin as a docstring", r"^Begin\b", "the arguments alone, or the first state"),
    Rule("interpreter lock", r"\binterpreter(?:'s)? lock\b", "GIL"),
    Rule(
        "answer as a noun",
        r"\b(?:an?|the|its|each|every|one|no|any|that|this|whose|late|first|last|their|of|s')"
        r" answers?\b",
        "response",
    ),
    Rule(
        "a metaphor for a term",
        r"\b(?:bell|guest|express lane|rings? the|stands in line|in line for|doors?)\b",
        "wakeup, caller, direct path, queue, interface",
    ),
    Rule(
        "a description that begins with Of",
        r"^[*\w, ]{1,40}: (?-i:Of) ",
        "the noun: 'topic: Topic of the record', not 'topic: Of the record'",
    ),
    Rule(
        "a clause as a description",
        r"^[*\w, ]{1,40}: (?-i:What|Which|Whose|Where|Who|So many|(?:That|Those that)"
        r" (?:is|are|was|were))\b(?!.*\?)",
        "the noun: 'path: Path of the file', not 'path: Where the file is'",
    ),
    Rule(
        "a clause as a docstring",
        r"^(?-i:What|Which|Whose)\b(?!.*\?)|^(?-i:Where|When)\b[^,?|]*\.$",
        "what the object is or does: 'The results of a run', not 'What a run has shown'",
    ),
    Rule("so many", r"\bso many\b(?! that)", "this many, `count`, the number of …"),
    Rule("let go", r"\blet(?:s|ting)? (?:it |them |us )?go\b", "release, free, wake"),
    Rule("the GIL is given up", r"\b(?:GIL|lock)\b[^.;:]*\bgiven up\b", "released"),
    Rule("stand still", r"\bstands? still\b", "hang, stop"),
    Rule("under way", r"\bunder way\b|\bon (?:its|their) way\b", "in flight, in progress"),
    Rule("owe", r"\bowes?\b", "must"),
    Rule(
        "refuse",
        r"\brefus(?:e|es|ed|ing|als?)\b(?<!connection refused)(?<!connections are refused)"
        r"(?! connections\b)",
        "reject, raise, fail; only a TCP connection is refused",
    ),
    Rule("pass over", r"\bpass(?:es|ed)? over\b", "skip, ignore"),
    Rule("come back in", r"\bcomes? back in\b", "is released, is returned"),
    Rule(
        "a duration without end",
        r"\bas long as (?:it|they) (?:takes?|likes?|lasts?)\b",
        "without limit",
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
    """No line of prose in the tree matches a rule's pattern."""
    found = places(rule)
    assert not found, f"{rule.name}: write {rule.better}\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("sentence", "name"),
    [
        ("Who holds the lock wakes the others.", "a bare who as subject or object"),
        ("Wakes who waits.", "a bare who as subject or object"),
        ("It drops what waits there.", "a clause with what as a noun"),
        ("The name is resolved anew.", "anew"),
        ("It goes on with the next.", "goes on"),
        ("Begin with none.", "Begin as a docstring"),
        ("Holds the interpreter lock.", "interpreter lock"),
        ("Reads the answer.", "answer as a noun"),
        ("Rings the bell.", "a metaphor for a term"),
        ("topic: Of the record.", "a description that begins with Of"),
        ("seed, name: Of the run.", "a description that begins with Of"),
        ("node_id: That is asked.", "a clause as a description"),
        ("path: Where the file is.", "a clause as a description"),
        ("What a run has shown.", "a clause as a docstring"),
        ("Where its files are.", "a clause as a docstring"),
        ("Return so many records.", "so many"),
        ("The memory is let go.", "let go"),
        ("The GIL is given up for it.", "the GIL is given up"),
        ("The broker stands still.", "stand still"),
        ("Records under way are kept.", "under way"),
        ("The broker owes a response.", "owe"),
        ("A wrong name is refused.", "refuse"),
        ("The broker's refusal is raised.", "refuse"),
        ("Markers are passed over.", "pass over"),
        ("Memory comes back in the end.", "come back in"),
        ("Waits as long as it takes.", "a duration without end"),
    ],
)
def test_a_breach_is_found(sentence: str, name: str) -> None:
    """Sentences as they once were written."""
    assert [rule.name for rule in RULES if breaks(rule, sentence)] == [name]


def test_an_indirect_question_is_none() -> None:
    """'What' behind a verb of saying asks, and names nothing."""
    assert not any(breaks(rule, "The text says what is missing.") for rule in RULES)


def test_a_connection_may_be_refused() -> None:
    """That is the operating system's word (ECONNREFUSED)."""
    texts = (
        "port 9092: Connection refused",
        "New connections are refused.",
        "It refuses connections.",
    )
    assert not any(breaks(rule, text) for rule in RULES for text in texts)


def test_prose_of_compiled_python_is_read() -> None:
    """A comment and a docstring of a .pyx file are among it."""
    lines = dict(prose_of("kprod/_core/record/batch_builder.pyx"))
    assert any("batch" in line for line in lines.values())
