"""`python -m kprod.cli` is the command `kprod`.

Thread-safety: the main thread.
"""

from kprod.cli import main

main()
