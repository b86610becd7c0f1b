"""The command `kprod`. click and rich come with `pip install 'kprod[cli]'`.

Thread-safety: the main thread.
"""

from kprod.cli.entry import main

__all__ = ["main"]
