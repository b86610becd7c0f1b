"""A fuzz target, and the construction of its inputs.

A target's `check` is handed bytes and must come back: an exception that it lets out is a finding,
and so is whatever the sanitizers say. It returns a short text for what happened, from which the
engine tells new behaviour from old.
"""

import ctypes
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

Mutator = Callable[[random.Random, bytes], bytes]
Walk = Callable[[], object]

_NEGATIVE = (-(2**63), -(2**31), -(2**31) + 12, -2, -1)
_SMALL = (0, 1, 2, 7, 12, 48, 49, 61, 127, 128, 255, 256)
_LARGE = (2**15 - 1, 2**16, 2**20, 2**28, 2**31 - 13, 2**31 - 1, 2**32, 2**63 - 1)
INTERESTING: tuple[int, ...] = _NEGATIVE + _SMALL + _LARGE
_NUMBER = re.compile(r"\b(0x)?[0-9a-f]*[0-9][0-9a-f]*\b")


class FindingError(Exception):
    """An input broke what the target promises."""


class Target(NamedTuple):
    """One decoder under test.

    Attributes:
        name: Name of the target and of its corpus file.
        seeds: Makes valid inputs.
        mutators: Changes that know the structure; the plain ones of the engine are added.
        check: Decodes an input and returns what happened; raises for a finding.
        planted: A patch with a length bug that the target must find.
    """

    name: str
    seeds: Callable[[], list[bytes]]
    mutators: Sequence[Mutator]
    check: Callable[[bytes], str]
    planted: Path


def planted(name: str) -> Path:
    """The location of a planted bug."""
    return Path(__file__).parent / "planted" / f"{name}.patch"


def exact(content: bytes | memoryview) -> memoryview:
    """Copy bytes into an allocation with not a byte to spare, so that overreads are seen.

    A `bytes` object has a zero byte at its end, and the sanitizer would not see one byte too many.

    Args:
        content: Content to copy.

    Returns:
        A writable view of the copy.
    """
    block = (ctypes.c_ubyte * len(content)).from_buffer_copy(content)
    return memoryview(block).cast("B")


def signature(error: Exception) -> str:
    """Say what kind of error it is, without its numbers.

    Args:
        error: The error raised.

    Returns:
        Its class and the beginning of its text.
    """
    return f"{type(error).__name__}: {_NUMBER.sub('#', str(error))[:70]}"
