"""`send_arrow` with columns that are absent, null, empty or of odd types never ends the process."""

from tests.safety.child import run_in_child

PREAMBLE = """
    import pyarrow as pa
    import kprod
    from kprod.broker.cluster import EmbeddedCluster

    ROWS = pa.table({"value": [b"a", None], "key": [b"k", None], "n": [0, None]})
"""


def test_no_column_of_values_sends_tombstones() -> None:
    """`value=None` means that no record has a value; keys, partitions and times are as usual."""
    told = run_in_child(
        PREAMBLE
        + """
    with EmbeddedCluster(1, {"orders": 1}) as cluster:
        with kprod.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            receipt = producer.send_arrow("orders", ROWS, value=None, key="key", timestamp="n")
            print(receipt.result(60)[0].count)
        for record in cluster.records("orders")[0]:
            print(record.key, record.value)
        """
    )
    assert told == ["2", "b'k' None", "None None"]


def test_every_combination_of_absent_columns_is_sent() -> None:
    """Any of the five may be None, or all, in tables of rows, of none and of no chunk."""
    told = run_in_child(
        PREAMBLE
        + """
    import itertools

    ROLES = {
        "value": "value", "key": "key", "partition": "n", "timestamp": "n", "headers": "headers"
    }
    HEADERS = pa.array(
        [[{"key": "a", "value": b"1"}], None],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    full = ROWS.append_column("headers", HEADERS)
    tables = [
        full,
        full.slice(0, 0),
        pa.table([pa.chunked_array([], f.type) for f in full.schema], full.column_names),
        pa.concat_tables([full, full.slice(1, 1), full.slice(0, 0)]),
        full.to_batches()[0],
    ]
    count = 0
    with EmbeddedCluster(1, {"orders": 1}) as cluster:
        with kprod.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for table in tables:
                for chosen in itertools.product([True, False], repeat=len(ROLES)):
                    named = {
                        role: column if is_there else None
                        for (role, column), is_there in zip(ROLES.items(), chosen)
                    }
                    receipt = producer.send_arrow("orders", table, **named)
                    receipt.result(60)
                    assert receipt.record_count == table.num_rows, (named, table)
                    count += table.num_rows
        assert len(cluster.records("orders")[0]) == count
    print(count)
        """
    )
    assert told == [str(32 * (2 + 0 + 0 + 3 + 2))]


def test_odd_columns_and_names_are_rejected_in_words() -> None:
    """Types that cannot be sent, names of no column, tables of nothing: an exception of its own."""
    told = run_in_child(
        PREAMBLE
        + """
    import pyarrow.compute as pc

    columns = {
        "null": pa.nulls(2),
        "dictionary": pa.array(["a", None]).dictionary_encode(),
        "dictionary of nulls": pa.DictionaryArray.from_arrays([0, None], pa.nulls(1)),
        "uuid": pa.array([b"0" * 16, None], pa.uuid()),
        "json": pa.array(["1", None], pa.json_()),
        "bool": pa.array([True, None]),
        "list": pa.array([[1], None]),
        "map": pa.array([[("a", b"1")], None], pa.map_(pa.string(), pa.binary())),
        "decimal": pa.array([1, None]).cast(pa.decimal128(20)),
        "run ends": pc.run_end_encode(pa.array([1, 1])),
        "struct": pa.array([{"a": 1}, None]),
        "fixed": pa.array([b"ab", None], pa.binary(2)),
        "fixed of nothing": pa.array([b"", None], pa.binary(0)),
        "union": pa.UnionArray.from_dense(
            pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32()), [pa.array([1, 2])]
        ),
        "time": pa.array([1, None], pa.timestamp("ns")),
        "month": pa.array([None, None], pa.month_day_nano_interval()),
    }
    table = pa.table(list(columns.values()), list(columns))
    with EmbeddedCluster(1, {"orders": 1}) as cluster:
        with kprod.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for role in ("value", "key", "headers", "partition", "timestamp"):
                for name in [*columns, "absent", "", "x" * 100_000, 5, b"null", [], "\\ud800"]:
                    try:
                        producer.send_arrow("orders", table, **{"value": None, role: name})
                    except Exception as error:
                        assert str(error), (role, name)
                        assert len(str(error)) < 2_000, (role, str(name)[:50], len(str(error)))
            for data in (None, 5, [], {}, pa.array([1]), pa.table({}), pa.schema([]), object()):
                try:
                    producer.send_arrow("orders", data, value=None)
                except Exception as error:
                    assert str(error), data
    print("still here")
        """
    )
    assert told == ["still here"]
