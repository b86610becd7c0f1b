"""A poll without a limit ends when its member is fenced, whichever thread runs first."""

from threading import Thread
from typing import Any

import pytest

from kprod import Consumer
from kprod.broker import EmbeddedCluster
from kprod.consumer import consumer_wiring
from kprod.consumer.group_steps import GroupSteps
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode, FencedInstanceId

TURN_S = 0.5
END_S = 10.0


def test_the_reader_runs_the_step_before_the_io_thread_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reason is there by then, since nothing wakes the reader once more."""
    monkeypatch.setattr(consumer_wiring, "_open_direct_read", lambda *_: None)  # as with TLS
    hand = GroupSteps.prepare
    raised: list[str] = []

    def poll() -> None:
        try:
            consumer.poll()
        except FencedInstanceId as error:
            raised.append(str(error))

    def hand_and_let_run(steps: GroupSteps, ticket: int, **options: Any) -> None:
        hand(steps, ticket, **options)
        if reader.is_alive():
            reader.join(TURN_S)

    reader = Thread(target=poll, daemon=True)
    monkeypatch.setattr(GroupSteps, "prepare", hand_and_let_run)
    with (
        EmbeddedCluster(brokers=1, topics={"orders": 1}) as cluster,
        Consumer(
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="billing",
            group_instance_id="one",
            heartbeat_interval_ms=50,
        ) as consumer,
    ):
        consumer.subscribe(["orders"])
        while not consumer.assignment():
            consumer.poll(0.05)
        cluster.faults.fail_next(ApiKey.HEARTBEAT, ErrorCode.FENCED_INSTANCE_ID)
        reader.start()
        reader.join(END_S)
        consumer.wakeup()  # otherwise a reader that was told nothing would not let it close
    assert len(raised) == 1
    assert "group_instance_id='one'" in raised[0]
