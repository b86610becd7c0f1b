"""Make a failing plan smaller: take out all that the same invariant does not need.

A run is a function of its plan, and each link and each kind of fault draws from a stream of its
own, so taking one entry out changes little else.

Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002), for the
removal of ever smaller parts.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kprod.errors import ConfigError
from tests.sim.plan import Entry, Plan
from tests.sim.world import simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RUNS_MAX = 2_000
_PLAIN_SETTINGS: dict[str, Any] = {
    "acks": "all",
    "enable_idempotence": True,
    "buffer_memory": 32 << 20,
    "batch_size": 16_000,
    "linger_ms": 0,
    "compression_type": "none",
    "compression_threads": 1,
    "on_buffer_full": "block",
    "retry_backoff_ms": 100,
    "reconnect_backoff_ms": 50,
    "first_sequence": False,
    "first_epoch": False,
}
_PLAIN_READER: dict[str, Any] = {
    "begin": "assign",
    "stream": 1,
    "auto_offset_reset": "earliest",
    "isolation_level": "read_uncommitted",
    "fetch_buffer_memory": 64 << 20,
    "max_partition_fetch_bytes": 1 << 20,
    "fetch_max_bytes": 50 << 20,
    "max_poll_records": 500,
    "value_type": "bytes",
    "deserializer": False,
    "interceptor": "",
}


class Shrinker:
    """Shrinks one plan.

    Args:
        plan: One that fails.

    Attributes:
        plan: The smallest that still fails alike.
        runs: Plans tried.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.runs = 0
        self.invariants = {finding.invariant for finding in simulate(plan).findings}

    def shrink(self) -> Plan:
        """Take out parts until no single one can be taken out any more."""
        before = None
        while before != self.plan.to_json() and self.runs < RUNS_MAX:
            before = self.plan.to_json()
            self._drop_kinds()
            self._fails(replace(self.plan, reader={}, readings=[]))
            self._fails(replace(self.plan, groups={}, acts=[]))
            self._fails(replace(self.plan, crew={}, shifts=[]))
            self._drop_entries("readings")
            self._drop_entries("acts")
            self._drop_entries("shifts")
            self._drop_entries("rests")
            self._drop_entries("faults")
            self._drop_entries("operations")
            self._shorten_operations()
            self._drop_producers()
            self._plain_world()
            self._plain_settings()
            self._plain_reader()
            self._end_early()
        return self.plan

    def _fails(self, plan: Plan) -> bool:
        """Keep a plan if it still breaks one of the same invariants."""
        if self.runs >= RUNS_MAX:
            return False
        self.runs += 1
        try:
            found = {finding.invariant for finding in simulate(plan).findings}
        except ConfigError:  # settings that contradict each other
            return False
        if found & self.invariants:
            self.plan = plan
            return True
        return False

    def _drop_kinds(self) -> None:
        for kind in sorted({entry["kind"] for entry in self.plan.faults}):
            left = [entry for entry in self.plan.faults if entry["kind"] != kind]
            self._fails(replace(self.plan, faults=left))

    def _drop_entries(self, name: str) -> None:
        entries: Sequence[Entry] = getattr(self.plan, name)
        size = max(len(entries) // 2, 1)
        while True:
            at = 0
            while at < len(entries):
                left = [*entries[:at], *entries[at + size :]]
                if self._fails(replace(self.plan, **{name: left})):  # type: ignore[arg-type]
                    entries = left
                else:
                    at += size
            if size == 1:
                return
            size //= 2

    def _shorten_operations(self) -> None:
        plainer: Sequence[Callable[[Entry], Entry]] = (
            lambda entry: {**entry, "count": 1},
            lambda entry: {**entry, "size": 8},
            lambda entry: {**entry, "observers": 0, "habit": ""},
        )
        for at in range(len(self.plan.operations)):
            for change in plainer:
                entry = self.plan.operations[at]
                changed = change(entry) if "count" in entry else entry
                if changed != entry:
                    entries = [*self.plan.operations]
                    entries[at] = changed
                    self._fails(replace(self.plan, operations=entries))

    def _drop_producers(self) -> None:
        for place in reversed(range(len(self.plan.producers))):
            producers = [*self.plan.producers[:place], *self.plan.producers[place + 1 :]]
            operations = [
                {**entry, "producer": entry["producer"] - (entry["producer"] > place)}
                for entry in self.plan.operations
                if entry["producer"] != place
            ]
            if producers:
                self._fails(replace(self.plan, producers=producers, operations=operations))

    def _plain_world(self) -> None:
        plan = self.plan
        partitions = dict.fromkeys(plan.topics, 1)
        plainer: Sequence[Plan] = (
            replace(plan, brokers=1, ending="calm", faults=_with(plan.faults, broker=0)),
            replace(plan, ending="calm"),
            replace(plan, mode="engine"),
            replace(plan, raising_log=False),
            replace(plan, operations=_with(plan.operations, caller=0)),
            replace(plan, faults=_with(plan.faults, for_ms=5)),
            replace(plan, topics=partitions, operations=_with(plan.operations, partition=0)),
        )
        for changed in plainer:
            if changed != plan and self._fails(changed):
                return  # the next round tries the others

    def _plain_settings(self) -> None:
        for at in range(len(self.plan.producers)):
            for name, value in _PLAIN_SETTINGS.items():
                settings = {**self.plan.producers[at], name: value}
                if settings != self.plan.producers[at]:
                    producers = [*self.plan.producers]
                    producers[at] = settings
                    self._fails(replace(self.plan, producers=producers))

    def _plain_reader(self) -> None:
        for name, value in _PLAIN_READER.items():
            if self.plan.reader.get(name, value) != value:
                self._fails(replace(self.plan, reader={**self.plan.reader, name: value}))

    def _end_early(self) -> None:
        plan = self.plan
        entries = (*plan.operations, *plan.faults, *plan.readings, *plan.acts, *plan.shifts)
        last_ms = max([entry["at_ms"] for entry in entries], default=0)
        if last_ms + 1 < self.plan.load_ms:
            self._fails(replace(self.plan, load_ms=last_ms + 1))


def _with(entries: "Sequence[Entry]", **changes: int) -> list[Entry]:
    """Change what entries have; a key that an entry lacks is not added."""
    return [
        {**entry, **{name: value for name, value in changes.items() if name in entry}}
        for entry in entries
    ]
