"""One text for each fault of a topic's name: the offending character, the length, or the name."""

import pytest

from kprod.topic_name import LENGTH_MAX, name_fault

FAULTS = {
    "": "must have at least 1 character",
    ".": "'.' is reserved",
    "..": "'..' is reserved",
    "no topic": "'no topic' has ' ' at index 2",
    "größe": "'größe' has 'ö' at index 2",
    "orders\n": r"has '\n' at index 6",
    "orders٣": "has '٣' at index 6",
    "x" * 250: "has 250 characters; at most 249 are allowed",
}


@pytest.mark.parametrize("name", ["o", "orders", "a-z_A.9", "...", "x" * LENGTH_MAX])
def test_legal_names_have_no_fault(name: str) -> None:
    """Letters, digits, dot, underscore and hyphen, up to 249 of them."""
    assert name_fault(name) is None


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_has_a_text_of_its_own(name: str) -> None:
    """It says this fault, and none of the others."""
    fault = name_fault(name)
    assert fault is not None
    assert FAULTS[name] in fault
    others = set(FAULTS.values()) - {FAULTS[name]}
    assert [text for text in others if text in fault] == []


def test_a_text_is_short_whatever_the_name() -> None:
    """A name of a million characters is cut."""
    fault = name_fault("x" * 1_000_000)
    assert fault is not None
    assert len(fault) < 200
    assert "has 1000000 characters" in fault
