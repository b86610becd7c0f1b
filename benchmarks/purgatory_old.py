"""The purgatory of Kafka 0.8, written once, as the side to compare with.

One delay queue of requests, a list of watchers for each key, a reaper that expires, and a purge
every N requests, which checks everything. A finished request stays until its timeout or
that purge.

It is made for threads, as Kafka's is and as kprod's is: each request and each list has its lock,
and a request is tried before and after it is added to its lists.

Thread-safety: any thread, but for `advance`, which is the reaper's.
Source: Kafka 0.8.2's RequestPurgatory.scala, and Y. Matsuda's account of it (Confluent's blog,
2015).
"""

import heapq
import itertools
import threading
from collections import deque
from collections.abc import Hashable, Sequence

PURGE_INTERVAL = 1_000
"""Requests between two purges; the default of 0.8.2 and later."""


class OldRequest:
    """A request that is satisfied once."""

    __slots__ = ("delay_ms", "lock", "satisfied")

    def __init__(self, delay_ms: int) -> None:
        """Start unsatisfied."""
        self.delay_ms = delay_ms
        self.lock = threading.RLock()
        self.satisfied = False

    def try_complete(self) -> bool:
        """Look at the condition: no key's event makes it true here."""
        return False

    def on_complete(self) -> None:
        """Answer nobody."""

    def force_complete(self) -> bool:
        """Satisfy it; nothing else learns of that."""
        with self.lock:
            if self.satisfied:
                return False
            self.satisfied = True
            self.on_complete()
        return True


class Watchers:
    """The requests of one key."""

    __slots__ = ("lock", "requests")

    def __init__(self) -> None:
        """Start empty."""
        self.lock = threading.Lock()  # guards: requests
        self.requests: deque[OldRequest] = deque()

    def add_if_not_satisfied(self, request: OldRequest) -> bool:
        """Add it, unless that is too late."""
        if request.satisfied:
            return False
        with self.lock:
            self.requests.append(request)
        return True

    def purge(self) -> None:
        """Drop satisfied requests."""
        with self.lock:
            self.requests = deque(each for each in self.requests if not each.satisfied)


class OldPurgatory:
    """A delay queue of requests and lists of watchers."""

    def __init__(self, purge_interval: int = PURGE_INTERVAL) -> None:
        """Start empty."""
        self.lock = threading.Lock()  # guards: queue, since_purge, watchers' keys
        self.queue: list[tuple[int, int, OldRequest]] = []
        self.watchers: dict[Hashable, Watchers] = {}
        self.sequence = itertools.count()
        self.now_ms = 0
        self.purge_interval = purge_interval
        self.since_purge = 0

    def watch(self, request: OldRequest, keys: Sequence[Hashable]) -> bool:
        """Complete a request, or add it to its keys and to the queue."""
        with request.lock:
            if request.try_complete():
                return request.force_complete()
        for key in keys:
            if not self._watchers_for(key).add_if_not_satisfied(request):
                return False
        with request.lock:
            if request.try_complete():
                return request.force_complete()
        with self.lock:
            entry = (self.now_ms + request.delay_ms, next(self.sequence), request)
            heapq.heappush(self.queue, entry)
            self.since_purge += 1
        return False

    def _watchers_for(self, key: Hashable) -> Watchers:
        found = self.watchers.get(key)
        if found is None:
            with self.lock:
                found = self.watchers.setdefault(key, Watchers())
        return found

    def advance(self, now_ms: int) -> None:
        """Expire due requests; purge, if enough requests have come since."""
        self.now_ms = now_ms
        while (request := self._poll(now_ms)) is not None:
            request.force_complete()
        if self.since_purge >= self.purge_interval:
            self.since_purge = 0
            with self.lock:
                self.queue = [entry for entry in self.queue if not entry[2].satisfied]
                heapq.heapify(self.queue)
            for found in self.watchers.values():
                found.purge()

    def _poll(self, now_ms: int) -> OldRequest | None:
        with self.lock:
            queue = self.queue
            return heapq.heappop(queue)[2] if queue and queue[0][0] <= now_ms else None

    @property
    def held_count(self) -> int:
        """Requests that it keeps alive."""
        return len(self.queue)
