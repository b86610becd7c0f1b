"""The comparison notices every way in which a log can differ from the records sent."""

from collections.abc import Sequence

from kprod.cli.comparison import Comparison
from kprod.model import RecordMetadata
from kprod.record.blocks import ConsumerRecord

SENT = [(b"UA", b"one"), (b"B6", b"two"), (b"UA", b"three")]


def _acknowledged(places: Sequence[tuple[int, int]]) -> Comparison:
    comparison = Comparison(SENT)
    for index, (partition, offset) in enumerate(places):
        comparison.acknowledge(index, RecordMetadata("flights", partition, offset, 0, 2, 3))
    return comparison


def _record(partition: int, offset: int, key: bytes | None, value: bytes | None) -> ConsumerRecord:
    return ConsumerRecord("flights", partition, offset, key=key, value=value)


def test_everything_there_is_whole() -> None:
    """Each record found once where its future said, in any order of partitions."""
    comparison = _acknowledged([(0, 0), (1, 0), (0, 1)])
    assert not comparison.is_whole
    comparison.compare(_record(1, 0, b"B6", b"two"))
    comparison.compare(_record(0, 0, b"UA", b"one"))
    comparison.compare(_record(0, 1, b"UA", b"three"))
    assert comparison.is_whole
    assert comparison.verified == {0: 2, 1: 1}


def test_a_missing_record_is_noticed() -> None:
    """Acknowledged and not in the log."""
    comparison = _acknowledged([(0, 0), (1, 0), (0, 1)])
    comparison.compare(_record(0, 0, b"UA", b"one"))
    comparison.compare(_record(0, 1, b"UA", b"three"))
    assert (comparison.missing_count, comparison.verified_count) == (1, 2)
    assert not comparison.is_whole


def test_a_duplicate_is_noticed() -> None:
    """The same record a second time, at an offset that no future gave."""
    comparison = _acknowledged([(0, 0), (1, 0), (0, 1)])
    comparison.compare(_record(1, 0, b"B6", b"two"))
    comparison.compare(_record(1, 1, b"B6", b"two"))
    comparison.compare(_record(0, 0, b"UA", b"one"))
    comparison.compare(_record(0, 1, b"UA", b"three"))
    assert (comparison.surplus_count, comparison.verified_count) == (1, 3)
    assert not comparison.is_whole


def test_swapped_and_altered_records_are_noticed() -> None:
    """Two records in each other's place, a value altered, a key lost."""
    swapped = _acknowledged([(0, 0), (1, 0), (0, 1)])
    swapped.compare(_record(0, 0, b"UA", b"three"))
    swapped.compare(_record(0, 1, b"UA", b"one"))
    assert swapped.different_count == 2
    altered = _acknowledged([(0, 0), (1, 0), (0, 1)])
    altered.compare(_record(0, 0, None, b"one"))
    altered.compare(_record(0, 1, b"UA", b"threE"))
    assert altered.different_count == 2


def test_two_futures_with_one_place_are_noticed() -> None:
    """Two records cannot both be at one offset."""
    comparison = _acknowledged([(0, 0), (1, 0), (0, 0)])
    comparison.compare(_record(0, 0, b"UA", b"three"))
    comparison.compare(_record(1, 0, b"B6", b"two"))
    assert comparison.different_count == 1
    assert not comparison.is_whole


def test_an_unknown_partition_is_surplus() -> None:
    """Records where nothing was sent belong to nobody."""
    comparison = Comparison([])
    assert comparison.is_whole
    comparison.compare(_record(5, 0, b"", b""))
    assert comparison.surplus_count == 1
