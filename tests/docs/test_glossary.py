"""Every code name on the glossary page exists in the sources or tests."""

import re

from tests.test_tidy import ROOT, sources, text_of

PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


def _names() -> list[str]:
    last_cells = (
        line.rstrip(" |").rpartition("|")[2] for line in PAGE.split("\n") if line.startswith("| ")
    )
    return [name for cell in last_cells for name in re.findall(r"`([^`]+)`", cell)]


def test_code_names_exist() -> None:
    """A name is a word of the code below `kprod` or `tests`, or a folder."""
    words = {
        word
        for path in sources(".py", ".pyx", ".pxd")
        if path.startswith(("kprod/", "tests/"))
        for word in re.findall(r"\w+", text_of(path))
    }
    names = _names()
    assert len(names) > 100
    missing = [name for name in names if name not in words and not (ROOT / name).is_dir()]
    assert not missing, "\n".join(missing)


def test_no_word_is_explained_twice() -> None:
    """The words of the first column are unique."""
    rows = [line.split("|")[1].strip() for line in PAGE.split("\n") if line.startswith("| ")]
    words = [word for row in rows if row != "word" for word in row.split(", ")]
    assert sorted(words) == sorted(set(words))
