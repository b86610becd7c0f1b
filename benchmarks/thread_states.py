"""The states of threads over time, from a trace's events: one after the other for each thread.

Thread-safety: immutable values, and functions of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from gil_trace import Event


class State(Enum):
    """The state of a thread of a Python program."""

    RUNS_WITH_GIL = "runs with the GIL"
    WRITES = "writes to the socket, with the GIL"
    WAITS_FOR_GIL = "waits for the GIL"
    RUNS_WITHOUT_GIL = "runs without the GIL"
    WAITS_FOR_CORE = "waits for a core"
    SLEEPS = "sleeps"


@dataclass(frozen=True, slots=True)
class Span:
    """One state, from a time to a time of the trace's clock."""

    began_s: float
    ended_s: float
    state: State


class _Thread:
    """One thread, as far as its events tell; the first ones tell what it was before."""

    def __init__(self, events: Sequence[Event]) -> None:
        kinds = [event.kind for event in events]
        gil = next((kind for kind in kinds if kind in _GIL_BEFORE), "")
        core = next((kind for kind in kinds if kind in _CORE_BEFORE), "")
        self._gil = _GIL_BEFORE.get(gil, "drops")
        # All that a thread without a core can do is get one.
        self._core = _CORE_BEFORE.get(core, "on" if kinds else "off")
        self._writes = False

    def take(self, kind: str) -> None:
        """Change by an event."""
        if kind in _GIL_BEFORE:
            self._gil, self._core = kind, "on"  # perf loses a change of the core now and then
        elif kind in {"writes", "written"}:
            self._writes, self._core = kind == "writes", "on"
        elif kind != "woken" or self._core == "off":  # a thread that runs may be woken, too
            self._core = kind

    def state(self) -> State:
        """Return the state since the last event."""
        if self._core in {"preempted", "woken"}:
            return State.WAITS_FOR_CORE
        if self._gil == "wants":
            return State.WAITS_FOR_GIL
        if self._core == "off":
            return State.SLEEPS
        if self._gil == "drops":
            return State.RUNS_WITHOUT_GIL
        return State.WRITES if self._writes else State.RUNS_WITH_GIL


_GIL_BEFORE = {"wants": "drops", "has": "wants", "drops": "has"}
"""A thread's last event about the GIL before the one that is named."""

_CORE_BEFORE = {"on": "off", "woken": "off", "off": "on", "preempted": "on"}


def spans_of(events: Iterable[Event], tid: int) -> list[Span]:
    """Find the states of one thread.

    Args:
        events: A trace, in order of time.
        tid: The thread.

    Returns:
        Its states without a gap, from the first event of the trace to the last; neighbours differ.
    """
    events = list(events)
    own = [event for event in events if event.tid == tid]
    thread, spans = _Thread(own), list[Span]()
    began_s, state = events[0].at_s, thread.state()
    for event in own:
        thread.take(event.kind)
        if thread.state() is not state:
            spans.append(Span(began_s, event.at_s, state))
            began_s, state = event.at_s, thread.state()
    spans.append(Span(began_s, events[-1].at_s, state))
    return [span for span in spans if span.ended_s > span.began_s]


def sender_of(events: Iterable[Event], pid: int) -> int:
    """Find the thread beside the main one that takes the GIL most often.

    Args:
        events: A trace of a process with a producer.
        pid: The process.

    Returns:
        The thread's number.

    Raises:
        ValueError: No other thread takes it.
    """
    taken = [event.tid for event in events if event.kind == "has" and event.pid == pid]
    others = [tid for tid in taken if tid != pid]
    if not others:
        raise ValueError(f"no thread of process {pid} but the main one takes the GIL")
    return max(others, key=others.count)


def threads_of(events: Iterable[Event], pid: int) -> set[int]:
    """Return the threads of a process that have had a core."""
    return {event.tid for event in events if event.pid == pid}


def shares_of(spans: Sequence[Span]) -> dict[State, float]:
    """Return each state's share of the time, 0 to 1."""
    whole_s = spans[-1].ended_s - spans[0].began_s
    return {
        state: sum(span.ended_s - span.began_s for span in spans if span.state is state) / whole_s
        for state in State
    }
