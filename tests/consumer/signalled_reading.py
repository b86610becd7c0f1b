"""A signal handler that runs when the compiled part of a read has returned."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kprod.errors import KprodError
from tests.interruptions import Interrupted


class SignalledReading:
    """A consumer's reading, after whose compiled part a signal handler acts and raises."""

    def __init__(self, reading: Any, act: Callable[[], object]) -> None:
        """Keep both."""
        self._reading = reading
        self._act = act

    def __getattr__(self, name: str) -> Any:
        """Return what the reading has."""
        return getattr(self._reading, name)

    def begin(self, *arguments: Any, **settings: Any) -> None:
        """Read and be interrupted."""
        self._reading.begin(*arguments, **settings)
        with suppress(KprodError):
            self._act()
        raise Interrupted
