"""The command line: `kprod` and its commands, one file each.

Thread-safety: commands run once, in one thread.
"""

from kprod.cli.group import main

__all__ = ["main"]
