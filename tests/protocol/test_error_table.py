"""Error codes and their classes."""

import pickle

import pytest

from kprod.errors import BrokerError
from kprod.protocol.error_table import ERRORS, ErrorCode, NotLeaderOrFollower, error_for


def test_every_code_but_success_has_a_class() -> None:
    """Code and name agree, and the class is a BrokerError of its own."""
    assert set(ERRORS) == set(ErrorCode) - {ErrorCode.NONE}
    for code, error_class in ERRORS.items():
        assert error_class.code == code
        assert error_class.name == ErrorCode(code).name
    assert len(set(ERRORS.values())) == len(ERRORS)


@pytest.mark.parametrize("code", sorted(ERRORS))
def test_an_error_survives_pickling(code: int) -> None:
    """Type, text and attributes come back."""
    error = error_for(code, "said so")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is ERRORS[code]
    assert str(again) == str(error)
    assert again.code == code


def test_an_unknown_code_is_kept() -> None:
    """A newer broker's code is a plain BrokerError, also after pickling."""
    error = error_for(31_000, "new")
    again = pickle.loads(pickle.dumps(error))
    for each in (error, again):
        assert type(each) is BrokerError
        assert each.code == 31_000
        assert str(each) == "UNKNOWN_ERROR_31000 (code 31000): new"
        assert not each.retriable
    assert BrokerError.code == -1


def test_a_peers_words_are_cut_and_made_printable() -> None:
    """Escape sequences and a megabyte of text end as at most 256 printable characters."""
    text = str(error_for(6, "\x1b[31m\n" + "x" * 1_000_000))
    prefix = "NOT_LEADER_OR_FOLLOWER (code 6): "
    assert text.startswith(prefix + r"\x1b[31m\nxxx")
    assert len(text) == len(prefix) + 256
    assert text.isprintable()


def test_success_is_no_error() -> None:
    """Code 0 is the caller's mistake."""
    with pytest.raises(ValueError, match="success"):
        error_for(0)


# From the producer's needs: code, may succeed later, metadata is stale.
@pytest.mark.parametrize(
    ("code", "retriable", "refresh"),
    [
        (2, True, False), (3, True, True), (5, True, True), (6, True, True), (7, True, False),
        (10, False, False), (13, True, True), (17, False, False), (19, True, False),
        (20, True, False), (29, False, False), (31, False, False), (45, False, False),
        (47, False, False), (51, True, False), (53, False, False), (56, True, True),
        (74, True, True), (75, True, False), (87, False, False), (90, False, False),
        (100, True, True), (103, True, True), (120, False, False),
    ],
)  # fmt: skip
def test_what_to_do_about_an_error(code: int, retriable: bool, refresh: bool) -> None:
    """The attributes that the sender decides by."""
    error = error_for(code)
    assert (error.retriable, error.refresh_metadata) == (retriable, refresh)


def test_classes_are_named_after_the_protocol() -> None:
    """A user can catch one by name."""
    with pytest.raises(NotLeaderOrFollower):
        raise error_for(6)
