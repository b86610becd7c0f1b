"""A trace's events give each thread's states, without a gap."""

import pytest
from gil_trace import Event, parsed
from thread_states import Span, State, sender_of, shares_of, spans_of

CALLER, SENDER = 7, 8

TRACE = """\
       7/7       10.000000001: kprod_gil:wants: (7f)
       0/0       10.000000002: sched:sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 \
prev_state=R ==> next_comm=python next_pid=8 next_prio=120
       7/8       10.000000003: kprod_gil:has__return: (7f <- 8a)
       7/8       10.000000004: syscalls:sys_enter_sendmsg: fd: 0x00000005
       7/8       10.000000005: syscalls:sys_exit_sendmsg: 0x64
       7/8       10.000000006: sched:sched_wakeup: comm=python pid=7 prio=120 target_cpu=000
       7/8       10.000000007: kprod_gil:drops: (7f)
       7/8       10.000000008: sched:sched_switch: prev_comm=python prev_pid=8 prev_prio=120 \
prev_state=S ==> next_comm=a b next_pid=7 next_prio=120
      7/-1       10.000000009: sched:sched_switch: prev_comm=python prev_pid=9 prev_prio=120 \
prev_state=X ==> next_comm=python next_pid=7 next_prio=120
       7/7       10.000000009: sched:sched_process_exit: comm=x
"""


def test_lines_of_perf_are_events() -> None:
    """A change of a core is one event of each thread; other lines are none."""
    kinds = [(event.tid, event.kind) for event in parsed(TRACE)]
    assert kinds == [
        (7, "wants"),
        *((0, "preempted"), (8, "on")),
        *((8, "has"), (8, "writes"), (8, "written")),
        (7, "woken"),
        (8, "drops"),
        *((8, "off"), (7, "on")),
        *((9, "off"), (7, "on")),
    ]


def _events(*kinds: tuple[int, str]) -> list[Event]:
    """One event a second."""
    return [Event(float(at), CALLER, tid, kind) for at, (tid, kind) in enumerate(kinds)]


def test_states_follow_each_other_without_a_gap() -> None:
    """From the first event of the trace to the last."""
    events = _events(
        (CALLER, "drops"),  # so it had the GIL before
        (SENDER, "has"),  # so it waited before
        (SENDER, "writes"),
        (SENDER, "written"),
        (SENDER, "drops"),
        (SENDER, "preempted"),  # so it had a core before
        (SENDER, "on"),
        (SENDER, "off"),
    )
    states = [
        State.WAITS_FOR_GIL,
        State.RUNS_WITH_GIL,
        State.WRITES,
        State.RUNS_WITH_GIL,
        State.RUNS_WITHOUT_GIL,
        State.WAITS_FOR_CORE,
        State.RUNS_WITHOUT_GIL,
    ]
    spans = spans_of(events, SENDER)
    assert spans == [Span(float(at), at + 1.0, state) for at, state in enumerate(states)]
    assert shares_of(spans)[State.RUNS_WITHOUT_GIL] == pytest.approx(2 / 7)


def test_a_thread_that_waits_for_the_gil_without_a_core_is_told_from_one_that_is_woken() -> None:
    """It waits for the GIL until it is woken, then for a core."""
    events = _events(
        (SENDER, "drops"),
        (SENDER, "wants"),
        (SENDER, "off"),
        (SENDER, "woken"),
        (SENDER, "woken"),
        (SENDER, "on"),
        (SENDER, "woken"),
        (SENDER, "has"),
    )
    states = [(span.began_s, span.state) for span in spans_of(events, SENDER)]
    assert states == [
        (0.0, State.RUNS_WITHOUT_GIL),
        (1.0, State.WAITS_FOR_GIL),
        (3.0, State.WAITS_FOR_CORE),
        (5.0, State.WAITS_FOR_GIL),
    ]


def test_a_thread_with_an_event_of_its_own_has_a_core() -> None:
    """Even where the trace has lost that it got one."""
    events = _events((SENDER, "drops"), (SENDER, "off"), (SENDER, "has"), (SENDER, "drops"))
    states = [span.state for span in spans_of(events, SENDER)]
    assert states == [State.RUNS_WITHOUT_GIL, State.SLEEPS, State.RUNS_WITH_GIL]


def test_the_sender_is_the_other_thread_that_takes_the_gil_most() -> None:
    """Not the main thread, nor that of another process."""
    events = _events((CALLER, "has"), (CALLER, "has"), (9, "has"), (SENDER, "has"), (SENDER, "has"))
    assert sender_of(events, CALLER) == SENDER
    with pytest.raises(ValueError, match="no thread of process 3"):
        sender_of(events, 3)
