"""Random choices from a named stream, the same on every version of Python.

Each noun draws from a stream of its own, so that taking one entry out of a plan changes no other
draw. Only `getrandbits` is used: its results are promised, those of `choice` and `sample` are not.

Source: `random` in Python's library reference, "Notes on Reproducibility".
"""

import random
from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")
_CHANCE_BITS = 24


class Draw:
    """One stream of draws.

    Args:
        seed: Seed of the run.
        name: Name of the stream.

    Attributes:
        bits: Draws a number with a given count of bits.
    """

    def __init__(self, seed: int, name: str) -> None:
        self.bits = random.Random(f"{seed}/{name}").getrandbits

    def below(self, limit: int) -> int:
        """Draw a number from 0 to `limit` − 1; `limit` is at least 1."""
        bits = limit.bit_length()
        while (number := self.bits(bits)) >= limit:
            pass
        return number

    def between(self, lowest: int, highest: int) -> int:
        """Draw a number between two bounds, both included."""
        return lowest + self.below(highest - lowest + 1)

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return self.bits(_CHANCE_BITS) < probability * (1 << _CHANCE_BITS)

    def one_of(self, choices: Sequence[_T]) -> _T:
        """Draw one of several."""
        return choices[self.below(len(choices))]

    def some_of(self, choices: Sequence[_T], probability: float) -> list[_T]:
        """Draw each with a probability, in their order."""
        return [choice for choice in choices if self.chance(probability)]
