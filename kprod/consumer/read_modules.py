"""The modules whose code runs while the polling thread owns the I/O thread's state.

The rule for them, and its reason, are those of `kprod.network.compiled_modules`.

Thread-safety: a constant.
"""

from kprod.network.compiled_modules import COMPILED_MODULES

READ_MODULES = (
    *COMPILED_MODULES,
    "kprod.consumer.direct_read",
    "kprod.consumer.fetch_buffer",
    "kprod.consumer.fetch_listener",
    "kprod.consumer.fetch_plan",
    "kprod.consumer.fetch_repeat",
    "kprod.consumer.fetch_request",
    "kprod.consumer.fetch_session",
    "kprod.consumer.fetcher",
    "kprod.consumer.position",
    "kprod.consumer.read_replica",
    "kprod.consumer.topic_watch",
)
"""Each `.py` with a `.pxd` that runs on the path; a `.pyx` has no interpreted form."""
