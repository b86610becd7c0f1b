"""Load a producer for minutes, with a fault now and then: `python -m tests.soak --minutes 10`.

The exit code is 0 if every record is where it must be, and memory, descriptors, threads and latency
stay level.
"""

import argparse
import sys

from tests.soak.soak import Soak, SoakPlan

CALM_SHARE = 0.2


def main() -> int:
    """Run; 0 when every promise and every gate held."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=int, default=20_000, help="records a second")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    seconds = 60 * given.minutes
    plan = SoakPlan(
        load_s=seconds * (1 - CALM_SHARE),
        calm_s=seconds * CALM_SHARE,
        rate=given.rate,
        seed=given.seed,
    )
    report = Soak(plan).run()
    sys.stdout.write(f"{report.text()}\n")
    return 0 if report.verdict.is_clean and not report.broken else 1


if __name__ == "__main__":
    raise SystemExit(main())
