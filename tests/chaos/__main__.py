"""Kill brokers for minutes: `python -m tests.chaos --seconds 600`."""

import argparse
import sys

from tests.chaos.chaos import Chaos, ChaosPlan
from tests.plugins.kafka import artifacts_or_reason
from tests.plugins.kafka_nodes import KafkaNodes

KILLS_MIN = 12  # of the ten minutes
BUSY_KILLS_MIN = 6


def main() -> int:
    """Run; 0 when every promise was kept and enough was killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--kill-every", type=float, default=15.0, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    found = artifacts_or_reason()
    if isinstance(found, str):
        sys.stderr.write(f"{found}\n")
        return 1
    plan = ChaosPlan(duration_s=given.seconds, kill_every_s=given.kill_every, seed=given.seed)
    with KafkaNodes(found, brokers=3) as nodes:
        report = Chaos(nodes, plan).run()
    sys.stdout.write(f"{report.text()}\n")
    share = min(given.seconds / 600, 1)
    busy = sum(count > 0 for count in report.in_flight_at_kill)
    enough = len(report.in_flight_at_kill) >= KILLS_MIN * share and busy >= BUSY_KILLS_MIN * share
    return 0 if report.verdict.is_clean and enough else 1


if __name__ == "__main__":
    raise SystemExit(main())
