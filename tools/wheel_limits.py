"""How large a wheel may be: `make wheel` and `tests/test_package.py` reject a larger one.

Raise a limit with the reason beside it. With symbols for debuggers it was 23.6 MB, 59 MB installed.
"""

ZIPPED_BYTES_MAX = 5 << 20
INSTALLED_BYTES_MAX = 12 << 20
