"""What is called for each record is compiled plainly, and still tells how it is called."""

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
    ],
)
def test_a_plain_method_tells_its_signature(method: Callable[..., object], parameters: str) -> None:
    """As `help()` and editors show it: the names in order, all but the topic None by default."""
    _, *given = inspect.signature(method).parameters.values()
    assert [parameter.name for parameter in given] == parameters.split()
    assert all(parameter.default is None for parameter in given if parameter.name != "topic")
    assert method.__doc__
    assert "--" not in method.__doc__
