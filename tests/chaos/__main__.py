"""Kill brokers for minutes: `python -m tests.chaos --seconds 600`.

First under a patient producer, for so long; then, for a fifth of it, under one whose delivery
timeout is below an outage, so that sends fail. With `--security SASL_SSL` clients use TLS and log
in, each time for ten seconds. With `--compression gzip` several threads compress batches.
"""

import argparse
import sys
from dataclasses import replace

from kprod.model import CODECS
from tests.chaos.chaos import IMPATIENCE, Chaos, ChaosPlan, ChaosReport
from tests.chaos.secured_nodes import SecuredNodes
from tests.plugins.kafka import artifacts_or_reason
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_nodes import KafkaNodes

KILLS_MIN = 12  # in ten minutes
BUSY_KILLS_MIN = 6
IMPATIENT_SHARE = 0.2
_COMPRESSION = {"compression_threads": 3, "batch.size": 100_000}


def main() -> int:
    """Run; 0 when every promise was kept and enough was killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--kill-every", type=float, default=15.0, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--security", choices=("PLAINTEXT", "SASL_SSL"), default="PLAINTEXT")
    parser.add_argument("--compression", choices=[facts.name for facts in CODECS.values()])
    given = parser.parse_args()
    found = artifacts_or_reason()
    if isinstance(found, str):
        sys.stderr.write(f"{found}\n")
        return 1
    with nodes_of(found, given.security) as nodes:
        settings = nodes.client_settings() if isinstance(nodes, SecuredNodes) else {}
        if given.compression is not None:
            settings = {**settings, **_COMPRESSION, "compression.type": given.compression}
        plan = ChaosPlan(
            duration_s=given.seconds,
            kill_every_s=given.kill_every,
            seed=given.seed,
            settings=settings,
        )
        impatient = replace(
            plan,
            duration_s=given.seconds * IMPATIENT_SHARE,
            kill_every_s=1,
            down_s=(3.5, 6.0),
            freezes=True,
            topic="impatient",
            settings={**settings, **IMPATIENCE},
        )
        report = _told(Chaos(nodes, plan).run())
        failing = _told(Chaos(nodes, impatient).run())
    share = min(given.seconds / 600, 1)
    busy = sum(count > 0 for count in report.in_flight_at_kill)
    enough = len(report.in_flight_at_kill) >= KILLS_MIN * share and busy >= BUSY_KILLS_MIN * share
    failed = failing.verdict.not_persisted and failing.verdict.possibly_persisted
    is_clean = report.verdict.is_clean and failing.verdict.is_clean
    return 0 if is_clean and enough and failed else 1


def nodes_of(artifacts: Artifacts, security: str) -> KafkaNodes:
    """Make three brokers, which do not run."""
    if security == "SASL_SSL":
        return SecuredNodes(artifacts, brokers=3)
    return KafkaNodes(artifacts, brokers=3)


def _told(report: ChaosReport) -> ChaosReport:
    sys.stdout.write(f"{report.text()}\n\n")
    sys.stdout.flush()
    return report


if __name__ == "__main__":
    raise SystemExit(main())
