"""Values: made up, from a file, or numbers; and the workload that names them."""

from pathlib import Path

import pytest

from kprod.errors import ConfigError
from kprod.perf import payloads as subject
from kprod.perf.payloads import POOL_BYTES_MAX, payloads_of
from kprod.perf.workload import PayloadPlan, Workload, sample_every


def test_random_values_are_capitals_of_the_size_asked_for() -> None:
    """Each seed has values of its own; the same seed the same ones."""
    first = payloads_of(PayloadPlan(record_size=100, seed=1)).block(0, 10_000)
    again = payloads_of(PayloadPlan(record_size=100, seed=1)).block(0, 10_000)
    other = payloads_of(PayloadPlan(record_size=100, seed=2)).block(0, 10_000)
    assert first == again != other
    assert {len(value) for value in first} == {100}
    assert set(b"".join(first)) == set(range(ord("A"), ord("Z") + 1))
    assert len(set(first)) == 10_000


def test_large_values_take_bounded_memory() -> None:
    """The pool has fewer of them, and is gone through again."""
    values = payloads_of(PayloadPlan(record_size=POOL_BYTES_MAX // 2)).block(0, 3)
    assert values[0] == values[2] != values[1]


def test_empty_values() -> None:
    """A size of 0 is legal."""
    payloads = payloads_of(PayloadPlan(record_size=0))
    assert set(payloads.block(0, 5)) == {b""}
    assert payloads.size_bytes(0, 5) == 0


def test_numbers() -> None:
    """A value is its record's number."""
    payloads = payloads_of(PayloadPlan(is_monotonic=True))
    assert payloads.block(9, 3) == [b"9", b"10", b"11"]
    assert payloads.size_bytes(9, 3) == 5


def test_a_file_is_replayed_in_its_order(tmp_path: Path) -> None:
    """From its begin again when it ends; empty values are none; bytes need be no text."""
    file = tmp_path / "values"
    file.write_bytes(b"a\n\nbb\n\xff\xfe\n")
    payloads = payloads_of(PayloadPlan(file=str(file), is_in_order=True))
    assert payloads.block(0, 7) == [b"a", b"bb", b"\xff\xfe"] * 2 + [b"a"]
    assert payloads.block(4, 2) == [b"bb", b"\xff\xfe"]
    for first, count in [(0, 3), (1, 9_999), (29_998, 10_000), (20_001, 1)]:
        values = payloads.block(first, count)
        assert len(values) == count
        assert payloads.size_bytes(first, count) == sum(map(len, values))


def test_a_file_may_be_drawn_from(tmp_path: Path) -> None:
    """Every value comes, in an order of the seed."""
    file = tmp_path / "values"
    file.write_bytes(b"a|b|c")
    plan = PayloadPlan(file=str(file), delimiter="|", seed=4)
    values = payloads_of(plan).block(0, 1_000)
    assert set(values) == {b"a", b"b", b"c"}
    assert values != [b"a", b"b", b"c"] * 333 + [b"a"]
    assert values == payloads_of(plan).block(0, 1_000)


def test_a_file_without_values_is_rejected(tmp_path: Path) -> None:
    """The text names the file."""
    file = tmp_path / "empty"
    file.write_bytes(b"\n\n")
    with pytest.raises(ConfigError, match="has no value"):
        payloads_of(PayloadPlan(file=str(file)))


def test_a_file_beyond_reason_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All values are kept in memory."""
    monkeypatch.setattr(subject, "FILE_BYTES_MAX", 10)
    file = tmp_path / "large"
    file.write_bytes(b"x" * 11)
    with pytest.raises(ConfigError, match="more than 10 bytes"):
        payloads_of(PayloadPlan(file=str(file)))


@pytest.mark.parametrize(
    ("count", "rate", "every"),
    [
        (10**9, 5.0, 1),
        (1_000, None, 1),
        (100_000, None, 10),
        (1_000_000, None, 100),
        (50_000_000, None, 1_000),
        (1_000_000_000, None, 2_000),
    ],
)
def test_how_many_latencies_are_measured(count: int, rate: float | None, every: int) -> None:
    """All at a rate; at full speed a part, at least 10,000 and at most 500,000."""
    assert sample_every(count, rate) == every


def test_a_workload_travels_as_json() -> None:
    """A process reads the values that it was told to."""
    workload = Workload(
        client="kprod",
        topic="orders",
        settings={"bootstrap.servers": "localhost:9092", "linger.ms": 5},
        payloads=PayloadPlan(file="f", delimiter="\n", is_in_order=True, seed=3),
        record_count=7,
        rate=2.5,
    )
    assert Workload.from_json(workload.to_json()) == workload
