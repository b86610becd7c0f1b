"""A descriptor that is closed with the last reference to it, and by nothing else."""

import functools
import os
import select
from typing import Any

import pytest

from kprod._core.socket_io.owned_descriptor import OwnedDescriptor


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _fill(writer: OwnedDescriptor) -> None:
    while writer.write(b"word" * 10_000):
        pass


def test_the_last_reference_closes() -> None:
    """Not the first, and not before."""
    reader, writer = os.pipe()
    owned = OwnedDescriptor(writer)
    write = functools.partial(owned.write, b"seen")
    del owned
    assert (write(), os.read(reader, 10)) == (4, b"seen")
    del write
    assert not _is_open(writer)
    assert os.read(reader, 10) == b""
    os.close(reader)


def test_has_its_number_and_can_be_written_to() -> None:
    """As a file has and can; a failed write is told with its reason."""
    reader, writer = (OwnedDescriptor(end) for end in os.pipe())
    assert writer.write(b"") == 0
    assert select.select([reader], [writer], [], 0) == ([], [writer], [])
    assert writer.write(b"word") == 4
    assert select.select([reader], [], [], 0)[0] == [reader]
    with pytest.raises(OSError, match="Bad file descriptor"):
        reader.write(b"word")
    os.set_blocking(writer.fileno(), False)
    with pytest.raises(BlockingIOError):
        _fill(writer)


@pytest.mark.parametrize(
    ("wrong", "error"), [(-1, ValueError), (1 << 40, OverflowError), ("1", TypeError)]
)
def test_a_number_that_cannot_be_one_is_rejected(wrong: Any, error: type[Exception]) -> None:
    """Nothing is closed for it, and least of all descriptor 0."""
    were_open = [_is_open(number) for number in range(100)]
    with pytest.raises(error):
        OwnedDescriptor(wrong)
    assert [_is_open(number) for number in range(100)] == were_open
    assert any(were_open)


def test_nobody_can_have_python_code_run_when_it_is_closed() -> None:
    """Or a signal handler's exception would be lost there."""
    assert not hasattr(OwnedDescriptor, "__del__")
    with pytest.raises(TypeError):
        type("Heir", (OwnedDescriptor,), {"__del__": print})
