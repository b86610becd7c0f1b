# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Decides when to connect to an address again, and limits the client's total rate of attempts.

A back-off for each node is not enough: a broker decides how many nodes there are, and may give a
thousand of them one address that closes every connection. So failures are counted by address, and
all repeated attempts share a limit per second. First attempts are not limited, so that a client of
a large cluster starts quickly. Nor is the first attempt after a connection that lasted, so that a
restarted cluster is reached quickly. The number of remembered addresses is limited; above it, no
attempt counts as a first one.

Invariants.
    In any second at most `REPEATED_PER_SECOND_MAX` repeated attempts begin. At most one attempt for
    each address is in progress.

Thread-safety: the client's thread.
Source: KIP-144 for the back-off between attempts; the total limit is kprod's own.
"""

import random
from collections import deque

from kprod.cluster.backoff import ExponentialBackoff
from kprod.cluster.refresh_schedule import NEVER_MS
from kprod.config import NetworkSettings
from kprod.model import Node

REPEATED_PER_SECOND_MAX = 20
ADDRESSES_MAX = 4_096  # more than any cluster has brokers
LASTED_MS = 10_000  # a peer that closes sooner may never serve anything
_SECOND_MS = 1_000
_NOT_USABLE_MS = -1

_Address = tuple[str, int]


class _Failures:
    """The past failures of one address."""

    def __init__(self) -> None:
        self.count = 0  # consecutive failed attempts
        self.has_lasted = False  # the last connection lasted; the next attempt is not limited
        self.is_tried = False  # an attempt is in progress
        self.retry_at_ms = 0
        self.usable_since_ms = _NOT_USABLE_MS


class ConnectionAttempts:
    """The attempts of one client."""

    def __init__(self, settings: NetworkSettings, rng: random.Random) -> None:
        """Start with no failures.

        Args:
            settings: The back-offs.
            rng: Random numbers for jitter.
        """
        self._known: dict[_Address, _Failures] = {}
        self._repeated_ms: deque[int] = deque(maxlen=REPEATED_PER_SECOND_MAX)
        self._rng = rng
        self._backoff = ExponentialBackoff(
            initial_ms=settings.reconnect_backoff_ms, max_ms=settings.reconnect_backoff_max_ms
        )

    def wait_ms(self, node: Node, now_ms: int) -> int:
        """Return how long to wait before an attempt may begin.

        Args:
            node: The node to connect to.
            now_ms: Monotonic time.

        Returns:
            Milliseconds; 0 for now, `NEVER_MS` while another attempt is in progress.
        """
        known = self._known.get((node.host, node.port))
        if known is not None and known.is_tried:
            return NEVER_MS
        if known is None and len(self._known) < ADDRESSES_MAX:
            return 0
        retry_at_ms = 0 if known is None else known.retry_at_ms
        is_free = known is not None and known.has_lasted
        if not is_free and len(self._repeated_ms) == REPEATED_PER_SECOND_MAX:
            retry_at_ms = max(retry_at_ms, self._repeated_ms[0] + _SECOND_MS)
        return max(retry_at_ms - now_ms, 0)

    def begin(self, node: Node, now_ms: int) -> None:
        """Record the start of an attempt.

        Args:
            node: The node; `wait_ms` returned 0.
            now_ms: Monotonic time.
        """
        address = node.host, node.port
        known = self._known.get(address)
        is_full = len(self._known) >= ADDRESSES_MAX
        is_free = known.has_lasted if known is not None else not is_full
        if not is_free:
            self._repeated_ms.append(now_ms)
        if known is None:
            if is_full:
                del self._known[next(iter(self._known))]
            known = self._known[address] = _Failures()
        known.has_lasted = False
        known.is_tried = True

    def fail(self, node: Node, retry_at_ms: int, now_ms: int) -> int:
        """Record a failed attempt or a lost connection.

        Args:
            node: The node to connect to.
            retry_at_ms: End of the node's own back-off.
            now_ms: Monotonic time.

        Returns:
            Number of consecutive failures of the address, including this one.
        """
        known = self._known.setdefault((node.host, node.port), _Failures())
        known.is_tried = False
        since_ms, known.usable_since_ms = known.usable_since_ms, _NOT_USABLE_MS
        known.has_lasted = since_ms != _NOT_USABLE_MS and now_ms - since_ms >= LASTED_MS
        known.retry_at_ms = retry_at_ms
        if known.count:
            own_ms = now_ms + self._backoff.wait_ms(known.count, self._rng)
            known.retry_at_ms = max(retry_at_ms, own_ms)
        known.count += 1
        return known.count

    def succeed(self, node: Node, now_ms: int) -> None:
        """Record an established connection.

        Args:
            node: The node to connect to.
            now_ms: Monotonic time.
        """
        known = self._known.get((node.host, node.port))
        if known is not None:
            known.count, known.retry_at_ms, known.is_tried = 0, 0, False
            known.usable_since_ms = now_ms

    def forget(self, node: Node) -> None:
        """Make the next attempt a first one, because the connection was closed for being idle.

        Args:
            node: The node to connect to.
        """
        self._known.pop((node.host, node.port), None)
