"""How large a wheel may be: `make wheel` and `tests/test_package.py` reject a larger one.

Raise a limit with the reason beside it. With symbols for debuggers it was 23.6 MB, 59 MB installed.
"""

ZIPPED_BYTES_MAX = 7_000_000
INSTALLED_BYTES_MAX = 16_700_000
"""5 and 12 MiB held the producer, the consumer and the broker without compaction; its map of keys
and its choice of the records to keep are compiled, since they run for each record of a log. 0.7 MB
more are the consumer's parts that no exception of a signal handler may leave in the middle, and 1.4
MB its groups, the tables of their assignors, and the fetch cycle, compiled since it runs for each
response. 0.5 MB are the direct paths of a read, which no bytecode may run on, and of TLS.
0.7 MB are static types for a single record from its fetch response to `poll`, and the module that
repeats its fetch."""
