"""The modules whose code runs between `Producer.send` and the outcome of a lone record.

The rule for them, and its reason, are those of `kprod.network.compiled_modules`.

Thread-safety: a constant.
"""

from kprod.network.compiled_modules import COMPILED_MODULES

SEND_MODULES = (
    *COMPILED_MODULES,
    "kprod.producer.accumulator",
    "kprod.producer.batch",
    "kprod.producer.delivery",
    "kprod.producer.direct_path.direct_path",
    "kprod.producer.linger",
    "kprod.producer.partition_queue",
    "kprod.producer.partitioner",
    "kprod.producer.produce_request",
    "kprod.producer.produce_response",
    "kprod.producer.queue_leaders",
    "kprod.producer.sender",
    "kprod.producer.transaction.manager",
    "kprod.protocol.produce_frame",
)
"""Each `.py` with a `.pxd` that runs on the path; a `.pyx` has no interpreted form."""
