"""The command's entry point: names missing packages, and turns SIGTERM into an orderly end.

Nothing is imported at the top but that: the commands import what they need when they run, so that
help and shell completion answer at once.

Thread-safety: the main thread.
"""

import signal
import sys
from types import FrameType
from typing import NoReturn

EXIT_TERMINATED = 143  # 128 + SIGTERM, as shells have it
OPTIONAL_MODULES = frozenset({"click", "rich"})


def main() -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        from kprod.cli.app import run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in OPTIONAL_MODULES:
            raise
        sys.stderr.write(f"kprod: {error.name} is missing; run: pip install 'kprod[cli]'\n")
        sys.exit(1)
    signal.signal(signal.SIGTERM, _on_terminate)
    sys.exit(run(sys.argv[1:]))


def _on_terminate(signal_number: int, frame: FrameType | None) -> NoReturn:
    del signal_number, frame
    sys.exit(EXIT_TERMINATED)
