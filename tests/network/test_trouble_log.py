"""Lines about brokers that cannot be reached."""

import pytest

from kprod.errors import ConnectionFailed
from kprod.metrics.state_log import StateLog
from kprod.model import Node
from kprod.network.trouble_log import TroubleLog

ERROR = ConnectionFailed("cannot connect")
NODE = Node(3, "host", 9092)


def test_pauses_between_lines_grow_and_attempts_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One a second fails: told at 0 s, 1 s, 3 s, 7 s and so on."""
    trouble = TroubleLog(StateLog("me"))
    told_s = []
    for second in range(200):
        before = len(caplog.records)
        trouble.nobody_reached(ERROR, second * 1_000)
        told_s += [second] * (len(caplog.records) - before)

    assert told_s == [0, 1, 3, 7, 15, 31, 63, 123, 183]
    assert caplog.records[-1].getMessage() == (
        "me no broker can be reached attempts=60 reason='cannot connect'"
    )


def test_after_a_connection_the_next_trouble_is_told_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The pauses begin again."""
    trouble = TroubleLog(StateLog("me"))
    for now_ms in (0, 10, 1_000, 1_010):
        trouble.nobody_reached(ERROR, now_ms)
    trouble.calm()
    trouble.nobody_reached(ERROR, 1_020)

    assert len(caplog.records) == 3


def test_a_listener_is_named_once_and_not_if_it_ever_worked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One failure may be a restart; an address that worked is right, and its broker is down."""
    trouble = TroubleLog(StateLog("me"))
    trouble.listener_failed(NODE, 1, ERROR)
    assert not caplog.records
    trouble.listener_failed(NODE, 2, ERROR)
    trouble.listener_failed(NODE, 3, ERROR)
    (line,) = caplog.records
    assert "broker 3 is advertised as host:9092 (advertised.listeners)" in line.getMessage()

    other = Node(4, "other", 9092)
    trouble.listener_works(other)
    trouble.listener_failed(other, 5, ERROR)
    assert len(caplog.records) == 1
