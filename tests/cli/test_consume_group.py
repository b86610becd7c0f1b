"""Ctrl-C in `kprod consume --group`: a record that was not printed is not committed."""

import io
from typing import Any

import pytest

from kprod import Consumer, Producer
from kprod.broker import EmbeddedCluster
from kprod.cli.consume_group import GroupRun


class InterruptedAtOnce(Consumer):
    """The signal comes after the last instruction of a poll, before its records are used."""

    def poll(self, timeout: float | None = None, max_records: int | None = None) -> list[Any]:
        """Return nothing, or raise."""
        if super().poll(timeout, max_records):
            raise KeyboardInterrupt
        return []


class InterruptedLater(Consumer):
    """The signal comes in the poll after the one that returned records."""

    has_returned = False

    def poll(self, timeout: float | None = None, max_records: int | None = None) -> list[Any]:
        """Return records once."""
        records = super().poll(timeout, max_records)
        if self.has_returned:
            raise KeyboardInterrupt
        self.has_returned = bool(records)
        return records


@pytest.mark.parametrize(("kind", "printed_count"), [(InterruptedAtOnce, 0), (InterruptedLater, 3)])
def test_ctrl_c_commits_what_was_printed(kind: type[Consumer], printed_count: int) -> None:
    """And nothing else, also where records were returned that nobody has seen yet."""
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster:
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(3):
                producer.send("t", b"%d" % number)
        settings: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": "one",
            "auto_offset_reset": "earliest",
        }
        stream = io.BytesIO()
        run = GroupRun(kind(settings=settings), stream, lambda record: bytes(record.value), None)
        with pytest.raises(KeyboardInterrupt):
            run.read("t", None)
        assert len(stream.getvalue()) == run.count == printed_count
        with Consumer(settings=settings) as consumer:
            committed = consumer.committed([("t", 0)])
    offsets = [found and found.offset for found in committed.values()]
    assert offsets == [printed_count]
