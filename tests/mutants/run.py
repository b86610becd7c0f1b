"""Plant each fault in a copy of the tree and see that its tests find it.

Run as a script: `python tests/mutants/run.py [name …]`; the README beside it tells the rest.
"""

import sys
from pathlib import Path

# A script finds the tree's packages only so.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.mutants.program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
