"""The exception tree survives pickling, as executors that send errors home need."""

import pickle
from collections.abc import Iterator

import pytest

from kprod import errors
from kprod.protocol import error_table


def _classes() -> Iterator[type[errors.KprodError]]:
    for module in (errors, error_table):
        for entry in vars(module).values():
            if isinstance(entry, type) and issubclass(entry, errors.KprodError):
                yield entry


def _name(error_class: type[errors.KprodError]) -> str:
    return error_class.__name__


_ALL: list[type[errors.KprodError]] = sorted(set(_classes()), key=_name)


@pytest.mark.parametrize("error_class", _ALL)
def test_every_error_survives_pickling(error_class: type[errors.KprodError]) -> None:
    """Class, text and persistence come back from pickle as they were."""
    error = error_class("the request, the limit")
    error.persistence = errors.Persistence.POSSIBLY_PERSISTED
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is error_class
    assert str(again) == "the request, the limit"
    assert again.persistence is errors.Persistence.POSSIBLY_PERSISTED
    assert again.retriable == error_class.retriable


@pytest.mark.parametrize("error_class", _ALL)
def test_a_copy_is_another_error_that_says_the_same(error_class: type[errors.KprodError]) -> None:
    """Class, text, attributes, notes and cause are the original's; changes stay with the copy."""
    error = error_class("the request, the limit")
    error.persistence = errors.Persistence.NOT_PERSISTED
    error.__cause__ = cause = OSError(104, "reset")
    error.add_note("of the application")

    copied = errors.own_copy(error)
    copied.persistence = errors.Persistence.POSSIBLY_PERSISTED
    copied.add_note("of a caller")

    assert type(copied) is error_class
    assert str(copied) == "the request, the limit"
    assert copied.__cause__ is cause
    assert copied.__notes__ == ["of the application", "of a caller"]
    assert error.__notes__ == ["of the application"]
    assert error.persistence is errors.Persistence.NOT_PERSISTED


def test_a_copy_has_no_traceback_of_its_own() -> None:
    """The frames that the original was raised through are not the copy's."""
    error = errors.RecordsFailed("3 of 9")
    error.failed_count = 3
    with pytest.raises(errors.RecordsFailed):
        raise error

    copied = errors.own_copy(error)

    assert error.__traceback__ is not None
    assert copied.__traceback__ is None
    assert copied.failed_count == 3
