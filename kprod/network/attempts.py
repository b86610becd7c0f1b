# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""When an address may be connected to again, and how often the whole client may try again.

A node's own back-off is not enough: a broker decides how many nodes there are, and may give a
thousand of them one address that hangs up. So failures are counted by address too, and all repeated
attempts together have a limit for each second. First attempts are free, so that a large cluster
starts at once. The first attempt after a connection that lasted is free as well: a large cluster
that restarts is reached at once. The number of addresses that are remembered is limited, and above
it no attempt counts as a first one.

Invariants.
    In any second at most `REPEATED_PER_SECOND_MAX` repeated attempts begin.
    At most one attempt per address is under way.

Thread-safety: one thread, the client's.
Source: KIP-144 for the back-off between attempts; kprod's own for the limit of all together.
"""

import random
from collections import deque

from kprod.cluster.backoff import ExponentialBackoff
from kprod.cluster.refresh_schedule import NEVER_MS
from kprod.config import NetworkSettings
from kprod.model import Node

REPEATED_PER_SECOND_MAX = 20
ADDRESSES_MAX = 4_096  # a cluster has fewer brokers
LASTED_MS = 10_000  # a peer that hangs up sooner may be one that never serves
_SECOND_MS = 1_000
_NOT_USABLE_MS = -1

_Address = tuple[str, int]


class _Failures:
    """The past failures of one address."""

    def __init__(self) -> None:
        self.count = 0  # attempts in a row that failed
        self.has_lasted = False  # the connection that was lost last; the next attempt is free
        self.is_tried = False  # an attempt is under way
        self.retry_at_ms = 0
        self.usable_since_ms = _NOT_USABLE_MS


class ConnectionAttempts:
    """The attempts of one client."""

    def __init__(self, settings: NetworkSettings, rng: random.Random) -> None:
        """Start with no address tried.

        Args:
            settings: Back-offs.
            rng: Random numbers for jitter.
        """
        self._known: dict[_Address, _Failures] = {}
        self._repeated_ms: deque[int] = deque(maxlen=REPEATED_PER_SECOND_MAX)
        self._rng = rng
        self._backoff = ExponentialBackoff(
            initial_ms=settings.reconnect_backoff_ms, max_ms=settings.reconnect_backoff_max_ms
        )

    def wait_ms(self, node: Node, now_ms: int) -> int:
        """How long until an attempt may begin.

        Args:
            node: Where to.
            now_ms: Monotonic time.

        Returns:
            Milliseconds; 0 for now, `NEVER_MS` while the end of another attempt is awaited.
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
        """Count an attempt.

        Args:
            node: Where to; `wait_ms` was 0.
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
        """Note that an attempt failed, or that a connection was lost.

        Args:
            node: Where to.
            retry_at_ms: When the node's own back-off ends.
            now_ms: Monotonic time.

        Returns:
            How often in a row the address has failed, this time included.
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
        """Note that a connection can be used.

        Args:
            node: Where to.
            now_ms: Monotonic time.
        """
        known = self._known.get((node.host, node.port))
        if known is not None:
            known.count, known.retry_at_ms, known.is_tried = 0, 0, False
            known.usable_since_ms = now_ms

    def forget(self, node: Node) -> None:
        """Let the next attempt be a first one: the connection was closed because nobody used it.

        Args:
            node: Where to.
        """
        self._known.pop((node.host, node.port), None)
