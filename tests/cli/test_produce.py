"""`kprod produce` with a producer that keeps what it is given."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import Result

from kprod.cli import produce as subject
from kprod.cli.lines import LineFormat
from kprod.cli.produce_run import ProduceRun, Target
from kprod.errors import BufferTimeout, DeliveryTimeout, KprodError, RecordTooLarge
from tests.cli import running

Delivered = Callable[[None, KprodError | None], object]
Outcome = KprodError | BaseException | None


class Sent(NamedTuple):
    """The records handed over."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None
    timestamp_ms: int | None = None


class KeepingProducer:
    """A producer that delivers when it is closed.

    Args:
        rejections: Error raised by `send` for a value.
        failures: Error delivered for a value.
    """

    def __init__(
        self,
        rejections: dict[bytes, BaseException] | None = None,
        failures: dict[bytes, KprodError] | None = None,
    ) -> None:
        self.sent: list[Sent] = []
        self.flushes: list[float | None] = []
        self.closings: list[float | None] = []
        self.flush_error: BaseException | None = None
        self._rejections = rejections or {}
        self._failures = failures or {}
        self._waiting: list[tuple[Delivered, KprodError | None]] = []

    def send(  # noqa: PLR0913 - as the producer has it
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: list[tuple[str, bytes | None]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Any = None,
    ) -> object:
        """Keep the record, or reject it."""
        if (value or b"") in self._rejections:
            raise self._rejections[value or b""]
        self.sent.append(Sent(topic, key, value, headers or [], partition, timestamp_ms))
        self._waiting.append((on_delivery, self._failures.get(value or b"")))
        return None

    def flush(self, timeout: float | None = None) -> int:
        """Deliver everything, unless told to fail."""
        self.flushes.append(timeout)
        if self.flush_error is not None:
            error, self.flush_error = self.flush_error, None
            raise error
        return self._deliver()

    def close(self, timeout: float | None = None) -> int:
        """Deliver the rest."""
        self.closings.append(timeout)
        return self._deliver()

    def _deliver(self) -> int:
        while self._waiting:
            on_delivery, failure = self._waiting.pop(0)
            on_delivery(None, failure)
        return 0


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> KeepingProducer:
    """The producer that the command opens."""
    keeping = KeepingProducer()
    monkeypatch.setattr(subject, "_open_producer", lambda _: keeping)
    return keeping


def invoke(*arguments: str, stdin: bytes) -> Result:
    """Run the command on an input."""
    return running.run("produce", "-b", "localhost:1", "-t", "orders", *arguments, stdin=stdin)


def produce(producer: KeepingProducer, lines: Iterator[bytes] | list[bytes]) -> int:
    """Run without the command line."""
    run = ProduceRun(producer, Target("orders", None, []), LineFormat())
    return run.run(lines, flush_timeout_s=3)


def test_lines_become_records(producer: KeepingProducer) -> None:
    """Each line is a value."""
    result = invoke(stdin=b"one\ntwo\n\nlast")
    assert result.exit_code == 0
    assert [sent.value for sent in producer.sent] == [b"one", b"two", b"", b"last"]
    assert {(sent.topic, sent.key, sent.partition) for sent in producer.sent} == {
        ("orders", None, None)
    }
    assert result.stderr == "4 records delivered, 0 failed\n"
    assert producer.closings == [None]


def test_options_of_kcat(producer: KeepingProducer) -> None:
    """Keys, delimiters, headers, nulls, partition."""
    result = invoke(
        *("-K", r"\t", "-D", ";", "-Z", "-p", "3", "-H", "a=1=2", "-H", "b", "-k", "fixed"),
        stdin=b"k\tv;w;\t",
    )
    assert result.exit_code == 0
    headers = [("a", b"1=2"), ("b", None)]
    assert producer.sent == [
        Sent("orders", b"k", b"v", headers, 3),
        Sent("orders", b"fixed", b"w", headers, 3),
        Sent("orders", None, None, headers, 3),
    ]


def test_failed_deliveries_are_counted() -> None:
    """Equal errors are one line; the exit code says that something failed."""
    failures: dict[bytes, KprodError] = {
        b"a": DeliveryTimeout("late"),
        b"b": DeliveryTimeout("late"),
    }
    assert produce(KeepingProducer(failures=failures), [b"a", b"b", b"c"]) == 1


def test_a_record_that_is_too_large_does_not_end_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The next may fit."""
    keeping = KeepingProducer(rejections={b"big": RecordTooLarge("big")})
    assert produce(keeping, [b"big", b"small"]) == 1
    assert [sent.value for sent in keeping.sent] == [b"small"]
    assert capsys.readouterr().err == "1 × big\n1 record delivered, 1 failed\n"


def test_other_errors_end_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    """The next record would wait as long for the same."""
    keeping = KeepingProducer(rejections={b"x": BufferTimeout("no memory")})
    assert produce(keeping, [b"a", b"x", b"b"]) == 1
    assert [sent.value for sent in keeping.sent] == [b"a"]
    assert keeping.closings == [None]
    assert "no memory" in capsys.readouterr().err


def interrupted(*lines: bytes) -> Iterator[bytes]:
    """Yield lines, then press Ctrl-C."""
    yield from lines
    raise KeyboardInterrupt


def test_ctrl_c_flushes_and_reports(capsys: pytest.CaptureFixture[str]) -> None:
    """Records handed over are delivered, within the limit."""
    keeping = KeepingProducer()
    assert produce(keeping, interrupted(b"a", b"b")) == 130
    assert (keeping.flushes, keeping.closings) == ([3], [0])
    assert "2 records delivered, 0 failed" in capsys.readouterr().err


def test_ctrl_c_twice_gives_up(capsys: pytest.CaptureFixture[str]) -> None:
    """A second Ctrl-C closes at once; failures then are counted as any."""
    keeping = KeepingProducer(failures={b"b": DeliveryTimeout("closed")})
    keeping.flush_error = KeyboardInterrupt()
    assert produce(keeping, interrupted(b"a", b"b")) == 130
    assert (keeping.flushes, keeping.closings) == ([3], [0])
    assert "1 record delivered, 1 failed" in capsys.readouterr().err


def terminated(*lines: bytes) -> Iterator[bytes]:
    """Yield lines, then get SIGTERM."""
    yield from lines
    raise SystemExit(143)


def test_sigterm_flushes_too() -> None:
    """The exit code stays the signal's."""
    keeping = KeepingProducer()
    with pytest.raises(SystemExit, match="143"):
        produce(keeping, terminated(b"a"))
    assert (keeping.flushes, keeping.closings) == ([3], [0])


def test_ctrl_c_in_the_last_flush_flushes_again_within_the_limit() -> None:
    """The lines have ended; records in flight still get their time."""
    keeping = KeepingProducer()
    keeping.flush_error = KeyboardInterrupt()
    assert produce(keeping, [b"a"]) == 130
    assert (keeping.flushes, keeping.closings) == ([None, 3], [0])


@pytest.mark.parametrize(
    "arguments",
    [["-D", ""], ["-X", "linger_ms"], ["-X", "no_such_setting=1"], ["-z", "brotli"], ["-p", "-1"]],
)
def test_wrong_usage(arguments: list[str]) -> None:
    """One line, and exit code 2; no producer is left."""
    result = invoke(*arguments, stdin=b"")
    assert result.exit_code == 2
    assert result.stderr.startswith("kprod: ")


def test_lines_of_json(producer: KeepingProducer) -> None:
    """Each line has its own key, headers, partition, time and topic; options override them."""
    result = invoke(
        *("--json", "-k", "typed", "-H", "a=1"),
        stdin=b'{"value": "v", "key": "k", "headers": [["h", null]], "partition": 1,'
        b' "timestamp": 7, "topic": "other", "offset": 3}\n{"value": null}\n',
    )
    assert result.exit_code == 0, result.stderr
    assert producer.sent == [
        Sent("orders", b"k", b"v", [("h", None), ("a", b"1")], 1, 7),
        Sent("orders", b"typed", None, [("a", b"1")], None),
    ]


def test_lines_may_name_their_topics(producer: KeepingProducer) -> None:
    """Then none is typed; and partitions may be left to the keys."""
    stdin = b'{"value": "v", "topic": "audit", "partition": 5}\n{"value": "w"}\n'
    result = running.run("produce", "-b", "x:1", "--json", "--ignore-partitions", stdin=stdin)
    assert result.exit_code == 1
    assert producer.sent == [Sent("audit", None, b"v", [], None)]
    assert "1 × line 2 names no topic, and there is no --topic" in result.stderr


def test_a_malformed_line_does_not_end_the_run(producer: KeepingProducer) -> None:
    """Its number and fault are told, and the exit code is 1."""
    result = invoke("-J", stdin=b'{"value": "v"}\n{"vlaue": 1}\n{"value": "w"}\n')
    assert [sent.value for sent in producer.sent] == [b"v", b"w"]
    assert result.exit_code == 1
    assert '1 × line 2 has a field "vlaue"' in result.stderr
    assert "2 records delivered, 1 failed" in result.stderr


def test_whole_files(producer: KeepingProducer, tmp_path: Path) -> None:
    """Each is one record, whatever is in it; lines of several files come in their order."""
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_bytes(path.name.encode() * 2 + b"\n\0")
    names = [str(path) for path in paths]
    assert invoke("--whole", *names, stdin=b"").exit_code == 0
    assert invoke(*names, stdin=b"").exit_code == 0
    values = [sent.value for sent in producer.sent]
    assert values == [b"aa\n\0", b"bb\n\0", b"aa", b"\0", b"bb", b"\0"]


def test_a_null_marker(producer: KeepingProducer) -> None:
    """As Kafka's console producer has it: for keys and values that are it, not that contain it."""
    assert invoke("-K", ":", "-N", "NULL", stdin=b"NULL:v\nk:NULL\nk:NULLS\n").exit_code == 0
    pairs = [(sent.key, sent.value) for sent in producer.sent]
    assert pairs == [(None, b"v"), (b"k", None), (b"k", b"NULLS")]


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["--json", "--whole"], "--whole"),
        (["--json", "-K", ":"], "--key-delimiter"),
        (["--json", "-Z"], "--empty-null"),
        (["--json", "-N", "x"], "--null-marker"),
        (["--whole", "-K", ":"], "--key-delimiter"),
    ],
)
def test_options_that_contradict_each_other(arguments: list[str], option: str) -> None:
    """Told before anything is sent."""
    result = invoke(*arguments, stdin=b"x\n")
    assert result.exit_code == 2
    assert f"{option} has no meaning with" in result.stderr


def test_errors_of_many_kinds_are_counted_in_bounded_memory(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Texts that all differ do not fill the memory, and the sum is right."""
    failures: dict[bytes, KprodError] = {
        b"%d" % number: DeliveryTimeout(f"late {number}") for number in range(1_500)
    }
    assert produce(KeepingProducer(failures=failures), list(failures)) == 1
    told = capsys.readouterr().err
    assert "500 × further errors" in told
    assert "0 records delivered, 1,500 failed" in told


def test_a_cluster_that_is_away_is_told_at_once() -> None:
    """Before a line is read; not when max_block_ms is over."""
    result = running.run("produce", "-b", "localhost:1", "-t", "orders", stdin=b"x\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("kprod: no broker can be used: localhost:1: cannot connect")


def test_topic_and_bootstrap_are_needed() -> None:
    """There is no default cluster."""
    assert running.run("produce", "-t", "x").exit_code == 2
    assert running.run("produce", "-b", "x:1").exit_code == 2
