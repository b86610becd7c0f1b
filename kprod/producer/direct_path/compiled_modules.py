"""The modules whose code runs on the direct path of a single record, and why each is compiled.

The rule: between `Producer.send` and the outcome of a record that takes the direct path, no Python
bytecode runs on the calling thread. CPython runs signal handlers between bytecodes only. A handler
that ran there could send, flush or raise while the thread holds the sender's lock and the sender's
state is half changed; in compiled code there is no place where it could.

So every module of kprod that the path enters is compiled, as Cython's `.pyx` always is and a `.py`
is if it has a `.pxd`, and calls nothing on the path that is Python code: no dataclass's
constructor, no `contextlib.suppress`, no `random.randrange`. Each module of the list names it in
the second line of its docstring. A module that stays interpreted (an edited one, or a tracer's)
keeps the path from opening, unless the producer's `Environment` says `admits_interpreted`.

Thread-safety: any thread.
Source: the standard library's page on `signal`, "Execution of Python signal handlers".
"""

import importlib
from collections.abc import Iterable
from importlib.machinery import ExtensionFileLoader

COMPILED_MODULES = (
    "kprod.cluster.metadata",
    "kprod.cluster.snapshot",
    "kprod.network.channel",
    "kprod.network.client",
    "kprod.network.client_request",
    "kprod.network.connection",
    "kprod.network.connection_context",
    "kprod.network.epoll_selector",
    "kprod.network.framing",
    "kprod.network.in_flight",
    "kprod.network.outgoing",
    "kprod.network.request_task",
    "kprod.network.socket_wait",
    "kprod.network.transport",
    "kprod.producer.accumulator",
    "kprod.producer.batch",
    "kprod.producer.delivery",
    "kprod.producer.direct_path.direct_path",
    "kprod.producer.direct_path.response_wait",
    "kprod.producer.linger",
    "kprod.producer.partition_queue",
    "kprod.producer.partitioner",
    "kprod.producer.produce_request",
    "kprod.producer.produce_response",
    "kprod.producer.queue_leaders",
    "kprod.producer.sender",
    "kprod.producer.transaction.manager",
    "kprod.protocol.api_versions",
    "kprod.protocol.produce_frame",
)
"""Each `.py` with a `.pxd` that runs on the path; a `.pyx` has no interpreted form."""

COMPILED_TLS_MODULES = ("kprod.network.tls_transport",)
"""Those that run with TLS only, and load OpenSSL."""


def interpreted_modules(names: Iterable[str] = COMPILED_MODULES) -> list[str]:
    """Find modules that are not compiled.

    Args:
        names: Names of importable modules.

    Returns:
        The names of those that are not extension modules, in order.
    """
    return [
        name
        for name in names
        if not isinstance(importlib.import_module(name).__loader__, ExtensionFileLoader)
    ]
