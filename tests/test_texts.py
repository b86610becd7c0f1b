"""Texts for people: a count and its noun agree, wherever one is written into an error or a log."""

import re
from pathlib import Path

import pytest

from kprod.wording import counted, plural

ROOT = Path(__file__).resolve().parent.parent
NOUNS = (
    "answers",
    "attempts",
    "batches",
    "brokers",
    "callbacks",
    "columns",
    "elements",
    "entries",
    "headers",
    "partitions",
    "pieces",
    "problems",
    "records",
    "replicas",
    "requests",
    "rows",
    "sends",
    "threads",
    "times",
    "topics",
)
_COUNT_AND_NOUN = re.compile(rf"(?:\{{[^{{}}]*\}}|%d) (?:{'|'.join(NOUNS)})\b")

# Counts that are never 1 there, or are written so on purpose.
NEVER_ONE = {
    ("kprod/_core/arrow/arrow_columns.pyx", "columns"),  # for one name, 1 is the right number
    (
        "kprod/_core/record/batch_builder.pyx",
        "times",
    ),  # held by others beside the one that may rewrite it
    ("kprod/_core/socket_io/socket_calls.pyx", "pieces"),  # more than fit the stack
    ("kprod/broker/topics.py", "partitions"),  # 1 is within the bounds
    ("kprod/cli/perf.py", "records"),  # records/s
    ("kprod/cluster/metadata_response.py", "partitions"),  # a limit
    ("kprod/perf/perf_lines.py", "records"),  # the form of Kafka's tool, which programs read
    ("kprod/producer/delivery.py", "records"),  # a batch of one is not split
}


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 records"), (1, "1 record"), (2, "2 records"), (-1, "-1 records")],
)
def test_a_noun_follows_its_count(count: int, text: str) -> None:
    """Only exactly one is singular."""
    assert counted(count, "record") == text


def test_words_that_do_not_end_in_s_are_given() -> None:
    """A verb, or a noun of its own kind."""
    assert [plural(count, "entry", "entries") for count in (1, 2)] == ["entry", "entries"]
    assert counted(1, "send waits", "sends wait") == "1 send waits"


def test_no_text_writes_a_plural_after_any_count() -> None:
    """No module writes "1 records": `counted` chooses the noun, or the text needs none."""
    paths = [path for kind in ("py", "pyx", "pxd") for path in (ROOT / "kprod").rglob(f"*.{kind}")]
    found = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1} {match[0]}"
        for path in paths
        for name, text in [(str(path.relative_to(ROOT)), path.read_text("utf-8"))]
        for match in _COUNT_AND_NOUN.finditer(text)
        if (name, match[0].split()[-1]) not in NEVER_ONE
    ]
    assert not found, "\n" + "\n".join(found)
