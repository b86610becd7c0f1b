"""Consumers that nobody here wrote, each through the whole script on the embedded broker."""

from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.strangers.cast import python_member
from tests.strangers.script import run
from tests.strangers.stage import Stage

SESSION_MS, STATIC_SESSION_MS = 3_000, 6_000
ASSIGNORS = {
    "kprod": ["range", "roundrobin", "sticky", "cooperative-sticky"],
    "confluent": ["range", "roundrobin", "cooperative-sticky"],
    "kafka-python": ["range", "roundrobin", "sticky", "cooperative-sticky"],
    "aiokafka": ["range", "roundrobin", "sticky"],
}


class Kind(NamedTuple):
    """A client and its settings."""

    client: str
    assignor: str
    is_static: bool
    is_auto: bool

    def __str__(self) -> str:
        """A name for people."""
        static, commits = "static" if self.is_static else "dynamic", "auto" if self.is_auto else ""
        return f"{self.client}-{self.assignor}-{static}-{commits or 'manual'}"


SAMPLE = [
    Kind("kafka-python", "range", is_static=False, is_auto=False),
    Kind("aiokafka", "sticky", is_static=False, is_auto=True),
    Kind("kprod", "cooperative-sticky", is_static=False, is_auto=True),
]
ALL = [
    Kind(client, assignor, is_static=is_static, is_auto=is_auto)
    for client, assignors in ASSIGNORS.items()
    for assignor, is_static, is_auto in product(assignors, (False, True), (False, True))
]


def unread(kind: Kind, directory: Path) -> int:
    """Run the script.

    confluent-kafka's automatic commits may end below the end of a partition, seen in the requests
    of 4 of 24 runs: librdkafka 2.16 sends a commit that NOT_COORDINATOR rejected again after later
    ones were acknowledged, and commits at its end with a generation that is over. Any coordinator
    keeps the last one that it acknowledges, so for these kinds that alone is asserted.

    Returns:
        How many records are not committed in the end; for a client that steps back, 0.
    """
    command = python_member(
        client=kind.client,
        assignor=kind.assignor,
        is_static=kind.is_static,
        is_auto=kind.is_auto,
        session_ms=STATIC_SESSION_MS if kind.is_static else SESSION_MS,
    )
    steps_back = kind.client == "confluent" and kind.is_auto
    with Stage(command, directory, is_static=kind.is_static, steps_back=steps_back) as stage:
        committed = run(stage)
        return 0 if steps_back else len(stage.expected) - committed


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", SAMPLE, ids=str)
def test_a_sample(kind: Kind, tmp_path: Path) -> None:
    """One kind of two clients; confluent-kafka is in `tests/broker/group/test_group_clients.py`."""
    assert unread(kind, tmp_path) == 0


@pytest.mark.long
@pytest.mark.parametrize("kind", [it for it in ALL if it not in SAMPLE], ids=str)
def test_all_kinds(kind: Kind, tmp_path: Path) -> None:
    """Every assignor, dynamic and static, with automatic and manual commits."""
    assert unread(kind, tmp_path) == 0
