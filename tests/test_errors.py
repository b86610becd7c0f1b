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
    error = error_class("what was asked, what there was")
    error.persistence = errors.Persistence.POSSIBLY_PERSISTED
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is error_class
    assert str(again) == "what was asked, what there was"
    assert again.persistence is errors.Persistence.POSSIBLY_PERSISTED
    assert again.retriable == error_class.retriable
