"""Clocks, sockets, threads and chance are used by their owners only, and no order is a hash's.

A simulation brings a clock, a network, threads and a source of chance (`Environment`, `NetworkIO`,
`kprod.threads`, `kprod.clock.wait_by`). A module that goes past them works in every other test, and
makes runs of one seed differ.
"""

from pathlib import Path

import pytest

from tests.doors import doors_of
from tests.set_walks import sets_walked

ROOT = Path(__file__).resolve().parent.parent

# Not simulated: they use a producer or a cluster from outside.
OUTSIDE = {
    "kprod/cli/": "commands, which people run",
    "kprod/perf/": "loads, which people run, each in processes of its own",
    "kprod/spark/": "tasks of Spark, which has threads and clocks of its own",
}

# The modules that may use each, and why that is no way past a simulation.
OWNERS: dict[str, tuple[set[str], str]] = {
    "kprod/_core/clock.pyx": ({"time"}, "the clocks themselves"),
    "kprod/_core/threads.pyx": ({"_thread"}, "what `kprod.threads.use` replaces"),
    "kprod/_core/turn_lock.pyx": (
        {"threading"},
        "the lock of the direct path of reads, which a simulation does not open",
    ),
    "kprod/_core/turn_lock.pxd": ({"threading"}, "its field"),
    "kprod/threads.py": ({"_thread", "threading"}, "the threads themselves"),
    "kprod/_core/signal_handlers.pyx": (
        {"_thread", "threading"},
        "whether the system's thread is the one that runs signal handlers",
    ),
    "kprod/producer/wiring.py": ({"random"}, "the default of `Environment.rng`"),
    "kprod/consumer/consumer_wiring.py": ({"random"}, "the default of `ConsumerEnvironment.rng`"),
    # The system's I/O, which a `NetworkIO` or the broker's `Network` replaces.
    "kprod/_core/socket_io/owned_descriptor.pyx": ({"<unistd.h>"}, "a descriptor's end"),
    "kprod/_core/socket_io/socket_calls.pyx": (
        {"<sys/socket.h>", "<sys/uio.h>"},
        "reads and writes of `PlainTransport`",
    ),
    "kprod/network/epoll_selector.py": ({"select"}, "a `Selector`"),
    "kprod/network/selector.py": ({"selectors", "socket"}, "a `Selector`"),
    "kprod/network/socket_wait.py": ({"select"}, "a `SocketWait`"),
    "kprod/network/transport.py": ({"socket"}, "a `Transport`"),
    "kprod/network/resolver.py": ({"socket", "threading"}, "a `Resolver`, with its threads"),
    "kprod/network/address_cursor.py": ({"socket"}, "numbers of address families, no socket"),
    "kprod/network/standalone_client.py": ({"random"}, "the default of its `rng`"),
    "kprod/network/admin_client.py": ({"random"}, "the default of its `rng`"),
    "kprod/_core/json/json_times.pyx": ({"datetime"}, "the epoch and a zone's offsets; no clock"),
    "kprod/broker/sockets.py": ({"selectors", "socket"}, "a `Network` of the broker"),
    # The broker's thread: a simulation calls `step` instead.
    "kprod/broker/cluster_runner.py": ({"threading"}, "the thread that calls `step`"),
    "kprod/broker/log/syncer.py": ({"threading"}, "a `Syncer`; a simulation has an `InlineSyncer`"),
    "kprod/broker/log/system_disk.py": ({"threading"}, "locks of directories, of all clusters"),
    "kprod/broker/control/record_waits.py": ({"threading"}, "a test waits in real time"),
    "kprod/broker/inbox.py": ({"threading"}, "waits for that thread, if there is one"),
    "kprod/timer/system_timer.py": ({"threading"}, "a timer with threads of its own"),
    # Nothing waits there, or nothing of kprod's does.
    "kprod/_core/timer/watch_lists.pxd": ({"threading"}, "see watch_lists.pyx"),
    "kprod/_core/timer/watch_lists.pyx": (
        {"_thread", "hash", "threading"},
        "locks of some instructions, chosen by a hash; the order of the keys' lists has none of it",
    ),
    "kprod/_core/aio/loop_mailbox.pyx": (
        {"threading"},
        "a value kept by thread is found by its event loop, also where threads are simulated",
    ),
    "kprod/guarded_log.py": ({"threading"}, "looks at the locks of the application's logging"),
    "kprod/producer/concurrent_view.py": ({"concurrent"}, "a view for concurrent.futures' users"),
    "kprod/producer/future.py": ({"concurrent"}, "the type of that view"),
    "kprod/broker/security/authority.py": (
        {"datetime", "threading"},
        "one authority per process; OpenSSL compares its certificates with the system's clock",
    ),
    "kprod/broker/log/cleaning/empty_map.py": ({"secrets"}, "a hash's key, which no order shows"),
    "kprod/broker/sasl/credentials.py": ({"secrets"}, "salts, which no order depends on"),
    "kprod/broker/sasl/delegation_tokens.py": ({"secrets"}, "ids of tokens, as for the salts"),
    "kprod/broker/sasl/verifiers.py": ({"secrets"}, "the server's nonce, as for the salts"),
    "kprod/network/sasl/login_thread.py": (
        {"threading"},
        "`LoginJobs`, with its thread, which a `NetworkIO` replaces",
    ),
    "kprod/network/sasl/sasl_logins.py": (
        {"secrets"},
        "a login's nonce, which no order depends on",
    ),
    "kprod/secret.py": ({"hash"}, "`Secret.__hash__`, for dicts of the application"),
}

# Where a set may be gone through, and why its order does not show.
ORDERLESS = {
    ("kprod/cluster/metadata_question.py", "self.topics - answer.topics.keys()"): "all are dropped",
    ("kprod/cluster/metadata_question.py", "topics"): "the yielded names go into a set",
}


def _modules() -> list[str]:
    names = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "kprod").rglob("*"))
        if path.suffix in {".py", ".pyx", ".pxd"}
    ]
    return [name for name in names if not name.startswith(tuple(OUTSIDE))]


def test_doors_are_used_by_their_owners_only() -> None:
    """Each use has its reason above, and each reason still has its use."""
    used = {name: doors_of(name, (ROOT / name).read_text("utf-8")) for name in _modules()}

    assert {name: doors for name, doors in used.items() if doors} == {
        name: doors for name, (doors, _) in OWNERS.items()
    }


def test_files_outside_are_there() -> None:
    """No exception is left of something that has gone."""
    assert [name for name in OUTSIDE if not (ROOT / name).exists()] == []


def test_no_order_comes_from_a_set() -> None:
    """Sorted, or kept in a dict, it is the same in every process."""
    found = {
        (name, walked)
        for name in _modules()
        if name.endswith(".py")
        for _, walked in sets_walked((ROOT / name).read_text("utf-8"))
    }
    assert found == ORDERLESS.keys()


@pytest.mark.parametrize(
    ("text", "door"),
    [
        ("import time", "time"),
        ("import json, time", "time"),
        ("from time import monotonic", "time"),
        ("def f():\n    import time", "time"),
        ("import datetime as clock", "datetime"),
        ("import socket", "socket"),
        ("import select", "select"),
        ("from selectors import DefaultSelector", "selectors"),
        ("import threading", "threading"),
        ("from threading import Lock", "threading"),
        ("from _thread import allocate_lock", "_thread"),
        ("import concurrent.futures", "concurrent"),
        ("from concurrent.futures import Future", "concurrent"),
        ("from queue import SimpleQueue", "queue"),
        ("import secrets", "secrets"),
        ("import random\nx = random.random()", "random"),
        ("import random\nx = random.Random()", "random"),
        ("import random\ndef f(rng: random.Random = random.Random(1)): ...", "random"),
        ("import random as chance", "random"),
        ("from random import choice", "random"),
        ("import os\nx = os.urandom(8)", "os.urandom"),
        ("from os import urandom", "os.urandom"),
        ("import uuid\nx = uuid.uuid4()", "uuid.uuid4"),
        ("from uuid import uuid4", "uuid.uuid4"),
        ("x = hash('a') % 4", "hash"),
    ],
)
def test_a_planted_use_is_found(text: str, door: str) -> None:
    """In Python, wherever it stands."""
    assert doors_of("planted.py", text) == {door}


@pytest.mark.parametrize(
    ("text", "door"),
    [
        ("import time", "time"),
        ("import json, time", "time"),
        ("from time import monotonic", "time"),
        ("cdef f():\n    import time", "time"),
        ("from libc.time cimport time", "time"),
        ("from posix.time cimport (\n    clock_gettime,\n)", "time"),
        ("cimport libc.time", "time"),
        ("import socket", "socket"),
        ("from threading import local", "threading"),
        ("from cpython.pythread cimport PyThread_allocate_lock", "threading"),
        ("from _thread import get_ident", "_thread"),
        ("import random", "random"),
        ("from random import Random", "random"),
        ("import os\nx = os.urandom(8)", "os.urandom"),
        ("from uuid import UUID as U, uuid4", "uuid.uuid4"),
        ("cdef Py_ssize_t x = hash(key) % 4", "hash"),
        ('cdef extern from "<time.h>":\n    long time(long*)', "<time.h>"),
    ],
)
@pytest.mark.parametrize("suffix", [".pyx", ".pxd"])
def test_a_planted_use_is_found_in_cython(text: str, door: str, suffix: str) -> None:
    """Also imports from C."""
    assert doors_of(f"planted{suffix}", text) == {door}


@pytest.mark.parametrize(
    "text",
    [
        "import random\ndef f(rng: random.Random) -> random.Random: ...",
        "import random\nclass C:\n    rng: random.Random",
        "import uuid\nx = uuid.uuid5(uuid.NAMESPACE_DNS, 'a')",
        "from uuid import UUID",
        "import os\nx = os.getpid()",
        "from kprod.clock import SystemClock",
        "x = self.hash(1)",
    ],
)
def test_other_names_are_let_be(text: str) -> None:
    """Types, ids that are computed, and the inputs' own names."""
    assert doors_of("innocent.py", text) == set()


def test_texts_and_comments_of_cython_are_no_use() -> None:
    """A docstring may speak of time."""
    text = '"""Take what\nfrom time import was\n"""\n# import time\nx = "import time"  # hash(x)\n'

    assert doors_of("innocent.pyx", text) == set()


@pytest.mark.parametrize(
    "text",
    [
        "for x in {a, b}: ...",
        "for x in set(y): ...",
        "names = {n for n in y}\nfor x in names: ...",
        "names: set[str] = f()\nz = [x for x in names]",
        "def f(names: frozenset[str]):\n    yield from names",
        "def f(names: set[C] | None):\n    for x in names - other: ...",
        "class C:\n    names: set[str]\n    def f(self):\n        return list(self.names)",
        "class C:\n    def f(self):\n        self.a = set()\n        return self.a.pop()",
        "z = dict.fromkeys({a, b})",
        "z = ','.join({a, b})",
        "z = [*{a, b}]",
    ],
)
def test_a_planted_walk_is_found(text: str) -> None:
    """Through names made as a set, or annotated as one."""
    assert len(list(sets_walked(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "for x in sorted({a, b}): ...",
        "z = sum(x for x in {a, b})",
        "z = {f(x) for x in {a, b}}",
        "def f(ids: set[int]):\n    return list(ids)",
        "z = a in {b, c}",
        "for x in dict.fromkeys([a, b]): ...",
        "def f():\n    names = set()\ndef g(names: list[str]):\n    return list(names)",
    ],
)
def test_a_walk_whose_order_is_known_is_let_be(text: str) -> None:
    """Sorted, of integers, or into a collection without order."""
    assert list(sets_walked(text)) == []
