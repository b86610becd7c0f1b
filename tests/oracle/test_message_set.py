"""The reference for V0 and V1 against bytes and decoders from outside."""

import pytest
from hypothesis import given

from tests.oracle import message_set
from tests.plugins.vectors import RecordVector, record_vectors
from tests.record import other_clients, strategies


@pytest.mark.parametrize("vector", record_vectors(0, 1), ids=lambda vector: vector.label)
def test_other_clients_message_sets(vector: RecordVector) -> None:
    """Other clients' message sets are read as they were meant."""
    read = [(*row, ()) for row in message_set.decode(vector.raw)]
    assert read == list(vector.records)


@pytest.mark.parametrize("reader", other_clients.READERS, ids=other_clients.name_of)
@given(records=strategies.records_legacy, base_offset=strategies.base_offsets)
def test_other_clients_read_the_reference(
    reader: other_clients.Reader,
    records: list[tuple[int, bytes | None, bytes | None]],
    base_offset: int,
) -> None:
    """kafka-python and aiokafka read what the reference writes, in each format and codec."""
    rows = [(base_offset + index, *record) for index, record in enumerate(records)]
    for magic, codec in other_clients.legacy_formats(reader):
        raw = message_set.encode(rows, magic=magic, codec=codec)
        expected = [(row[0], row[1] if magic else -1, row[2], row[3], ()) for row in rows]
        assert reader(raw) == expected
