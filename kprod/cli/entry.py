"""The command's entry point: names missing packages, and turns SIGTERM into an orderly end.

Standard output is buffered even with PYTHONUNBUFFERED: an unbuffered file may write only a part of
the bytes of one call, and the rest would be missing.

Only the standard library is imported at the top: the commands import what they need when they run,
so that help and shell completion answer at once.

Thread-safety: the main thread.
"""

import io
import signal
import sys
from types import FrameType
from typing import NoReturn

EXIT_INTERRUPTED = 130  # 128 + SIGINT, by convention
EXIT_TERMINATED = 143  # 128 + SIGTERM, as shells have it
EXTRA_OF = {"click": "cli", "rich": "cli", "hdrh": "perf", "matplotlib": "perf"}
"""Modules that only commands need, and the extra that each comes with."""


def main() -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    signal.signal(signal.SIGTERM, _on_terminate)
    _buffer_output()
    try:
        from kprod.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before `run`, which takes those after it
        sys.stderr.write("kprod: interrupted\n")
        sys.exit(EXIT_INTERRUPTED)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA_OF:
            raise
        extra = EXTRA_OF[package]
        sys.stderr.write(f"kprod: {package} is missing; run: pip install 'kprod[{extra}]'\n")
        sys.exit(1)
    sys.exit(code)


def _buffer_output() -> None:
    """Put a buffer between standard output and its file, where there is none; lines go at once."""
    output = sys.stdout
    if isinstance(output, io.TextIOWrapper) and isinstance(output.buffer, io.RawIOBase):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(output.buffer),
            encoding=output.encoding,
            errors=output.errors,
            line_buffering=True,
        )


def _on_terminate(signal_number: int, frame: FrameType | None) -> NoReturn:
    del signal_number, frame
    sys.exit(EXIT_TERMINATED)
