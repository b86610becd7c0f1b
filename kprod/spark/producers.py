"""Producers that outlive a task: one for each configuration in a worker process.

Connections, metadata and threads cost more than a micro-batch. Spark uses a worker process again
for its next tasks, and ends it by SIGKILL after a minute without one: so nothing may be left in a
producer when a task ends, and nothing is ever closed in an orderly way.

Invariants.
    A producer that a task failed with is not used again: the retry creates a new one. At most
    `PRODUCERS_MAX` are kept; the least recently used one is closed first.

Thread-safety: one thread; a worker process runs one task at a time.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from kprod import Producer
from kprod.producer.producer import engine_of
from kprod.secret import Secret
from kprod.spark.token_providers import client_settings

__all__ = ["PRODUCERS_MAX", "ProducerCache"]

PRODUCERS_MAX = 4  # several sinks in one foreachBatch; each may hold buffer.memory

_Key = tuple[int, frozenset[tuple[str, str | Secret]]]


def _producer_of(settings: Mapping[str, str | Secret]) -> Producer:
    return Producer(client_settings(settings))


class ProducerCache:
    """Lends producers by their settings.

    Thread-safety: one thread.
    """

    __slots__ = ("_make", "_producers")

    def __init__(
        self, make: Callable[[Mapping[str, str | Secret]], Producer] = _producer_of
    ) -> None:
        self._make = make
        self._producers: OrderedDict[_Key, Producer] = OrderedDict()

    @contextmanager
    def lend(self, settings: Mapping[str, str | Secret]) -> Generator[Producer]:
        """Lend the producer with these settings; make it if there is none.

        Args:
            settings: Every one resolved.

        Yields:
            It. An error inside the block, of whatever kind, ends its life.
        """
        # A forked child finds its parent's producers here, which are dead in it.
        key = (os.getpid(), frozenset(settings.items()))
        producer = self._producers.pop(key, None)
        if producer is not None and not engine_of(producer).is_open:
            producer.close(0)  # it died between tasks: no reason for this one to fail
            producer = None
        producer = producer or self._make(settings)
        try:
            yield producer
        except BaseException:
            producer.close(0)
            raise
        self._producers[key] = producer
        while len(self._producers) > PRODUCERS_MAX:
            _, oldest = self._producers.popitem(last=False)
            oldest.close(0)

    def close(self) -> None:
        """Close every producer that is kept."""
        while self._producers:
            _, producer = self._producers.popitem()
            producer.close(0)
