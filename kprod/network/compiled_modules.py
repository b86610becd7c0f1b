"""The modules whose code runs on a client's direct path, and why each is compiled.

A direct path is the way of a request on an application's thread while the client's thread sleeps:
`kprod.producer.direct_path` for a lone record, `kprod.consumer.direct_read` for a lone fetch.

The rule: between the call's taking of the client's lock and its release, no Python bytecode runs on
the calling thread. CPython runs signal handlers between bytecodes only. A handler that ran there
could send, flush, poll or raise while the thread holds the lock and the client's state is half
changed; in compiled code there is no place where it could.

So every module of kprod that a path enters is compiled, as Cython's `.pyx` always is and a `.py` is
if it has a `.pxd`, and calls nothing on the path that is Python code: no dataclass's constructor,
no named tuple's, no `contextlib.suppress`, no `random.randrange`, no comparison of UUIDs. Each
module of the lists names `COMPILED_MODULES` in the second paragraph of its docstring. A module that
stays interpreted (an edited one, or a tracer's) keeps the path from opening, unless the client's
environment says `admits_interpreted`.

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
    "kprod.network.node_state",
    "kprod.network.outgoing",
    "kprod.network.request_deadlines",
    "kprod.network.request_task",
    "kprod.network.response_wait",
    "kprod.network.socket_wait",
    "kprod.network.transport",
    "kprod.protocol.api_versions",
)
"""Each `.py` with a `.pxd` that runs on every path; a `.pyx` has no interpreted form."""

COMPILED_TLS_MODULES = ("kprod.network.tls_transport",)
"""Those that run with TLS only, and load OpenSSL."""


def interpreted_modules(names: Iterable[str]) -> list[str]:
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
