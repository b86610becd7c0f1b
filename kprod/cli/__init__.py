"""The command line tool `kprod`, which the extra `kprod[cli]` installs.

Thread-safety: the main thread.
"""

from kprod.cli.entry import main

__all__ = ["main"]
