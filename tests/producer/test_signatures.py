"""Methods called for each record are compiled plainly, and still tell their signatures."""

import inspect
from collections.abc import Callable

import pytest

from kprod import Producer, RecordFuture


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        (Producer.send, "topic value key headers partition timestamp_ms on_delivery"),
        (RecordFuture.done, ""),
        (RecordFuture.result, "timeout"),
        (RecordFuture.exception, "timeout"),
        (RecordFuture.add_done_callback, "callback context"),
    ],
)
def test_a_plain_method_tells_its_signature(method: Callable[..., object], parameters: str) -> None:
    """As `help()` shows it: names in order, any by keyword, and which of them must be given."""
    assert type(method) is type(str.join)  # what the interpreter calls fastest
    _, *given = inspect.signature(method).parameters.values()
    assert [parameter.name for parameter in given] == parameters.split()
    for parameter in given:
        assert parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        must_be_given = parameter.name in {"topic", "callback"}
        assert parameter.default is (parameter.empty if must_be_given else None)
    assert method.__doc__
