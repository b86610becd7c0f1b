"""What lets another thread use the client's connections while the client's own thread sleeps.

Thread-safety: as each method says.
"""

from typing import Protocol


class SleepingPlace(Protocol):
    """Lets another thread use the client while its own sleeps."""

    sleep_max_ms: int
    """Longest sleep."""

    def lend(self, until_ms: int) -> None:
        """The client's thread sleeps now; what is not later than `until_ms` it sees in time."""

    def take_back(self) -> None:
        """It is awake: the client is its own again, which may take a moment."""

    def close(self) -> None:
        """Give up its descriptors."""
