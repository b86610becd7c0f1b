"""A progress bar of the commands, on standard error.

Thread-safety: the main thread.
"""

from rich.console import Console
from rich.progress import Progress, ProgressColumn


class ProgressBar(Progress):
    """A bar that is removed at its end, and shown only where standard error is a terminal.

    Args:
        columns: Its parts, from left to right.
        is_wanted: False hides it on a terminal, too.
    """

    def __init__(self, *columns: str | ProgressColumn, is_wanted: bool = True) -> None:
        console = Console(stderr=True)
        is_shown = is_wanted and console.is_terminal
        super().__init__(*columns, console=console, transient=True, disable=not is_shown)

    def stop(self) -> None:
        """Remove it; older versions of rich print an empty line at the end of a hidden bar."""
        if not self.disable:
            super().stop()
