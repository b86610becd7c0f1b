"""The syncs of a round's files, which it hands over and waits for between two slices.

Invariant: `check` passes only when every sync that was handed over has ended well.

Thread-safety: the broker's thread.
Source: kprod's own.
"""

from collections.abc import Callable, Sequence

from kprod.broker.log.store import Store


class RoundSyncs:
    """Syncs in progress.

    Attributes:
        on_end: Is called once when the last one has ended, if it is given.
    """

    __slots__ = ("_error", "_pending_count", "on_end")

    def __init__(self) -> None:
        """Create an empty set of syncs."""
        self._error: OSError | None = None
        self._pending_count = 0
        self.on_end: Callable[[], object] | None = None

    @property
    def is_pending(self) -> bool:
        """Whether one has not ended."""
        return self._pending_count > 0

    def submit(self, store: Store, names: Sequence[str | None]) -> None:
        """Hand files over.

        Args:
            store: Has them.
            names: Names of files; None for the directory.

        Raises:
            OSError: A file cannot be opened.
        """
        self._pending_count += 1
        try:
            store.sync_later(names, self._note)
        except OSError:
            self._pending_count -= 1
            raise

    def check(self) -> None:
        """See that none has failed.

        Raises:
            OSError: One has.
        """
        if self._error is not None:
            raise self._error

    def _note(self, error: OSError | None) -> None:
        self._pending_count -= 1
        self._error = self._error or error
        if not self._pending_count and self.on_end is not None:
            action, self.on_end = self.on_end, None
            action()
