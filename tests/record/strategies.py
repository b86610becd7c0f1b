"""Hypothesis strategies for records of all formats."""

from hypothesis import strategies as st

INT64_MAX = 2**63 - 1
YEAR_2100_MS = 4_102_444_800_000

contents = st.one_of(st.none(), st.binary(max_size=40), st.just(b"\0" * 300))
"""A key or a value: null, empty, short, or long enough for two bytes of varint and to compress."""

timestamps_ms = st.one_of(
    st.integers(min_value=0, max_value=YEAR_2100_MS), st.sampled_from([0, 2**31, 2**32])
)

headers = st.lists(
    st.tuples(st.sampled_from(["", "a", "trace-id", "ключ", "重复"]), contents), max_size=4
).map(tuple)
"""Keys repeat and need not be ASCII."""

records_v2 = st.lists(st.tuples(timestamps_ms, contents, contents, headers), min_size=1, max_size=8)
"""Timestamp, key, value, headers each."""

records_legacy = st.lists(st.tuples(timestamps_ms, contents, contents), min_size=1, max_size=8)
"""Timestamp, key, value each."""

codecs_v2 = st.integers(min_value=0, max_value=4)
codecs_legacy = st.integers(min_value=0, max_value=3)
magics_legacy = st.sampled_from([0, 1])
base_offsets = st.one_of(
    st.just(0), st.integers(min_value=0, max_value=10**12), st.just(INT64_MAX - 16)
)
