"""A topic whose records are sent and read one by one, for tests of the direct path."""

import contextlib
import threading
from collections.abc import Generator
from typing import Any

from kprod import Producer, TopicPartition
from kprod.broker import EmbeddedCluster
from kprod.consumer.consumer_face import engine_of
from kprod.consumer.direct_read import DirectRead
from tests.consumer.reading import LIMIT_S, consumer_of, poll_count, wait_until

T0 = TopicPartition("t", 0)
OPENING = 5  # records that open the path


class Line:
    """A topic whose records are sent and read one by one."""

    def __init__(self, cluster: EmbeddedCluster, **settings: Any) -> None:
        self.cluster = cluster
        self.producer = Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0)
        self.consumer = consumer_of(cluster, **settings)
        self.consumer.assign([T0])
        self.sent = self.seen = 0
        for _ in range(OPENING):
            self.send()
            self.read()
        wait_until(lambda: self.direct._fetcher.lone_node_id >= 0, "the path is open")

    @property
    def direct(self) -> Any:
        """The direct path."""
        direct = engine_of(self.consumer).parts.direct_read
        assert isinstance(direct, DirectRead)
        return direct

    def send(self, value: bytes = b"") -> None:
        """Send the next record, whose value begins with its number."""
        value = b"%d," % self.sent + value
        self.producer.send("t", value, partition=0).result(LIMIT_S)
        self.sent += 1

    def read(self, count: int = 1) -> None:
        """Read the next records: no other, and each once."""
        records = poll_count(self.consumer, count)
        numbers = [int(record.value.split(b",")[0]) for record in records]
        assert numbers == list(range(self.seen, self.seen + len(numbers)))
        self.seen += len(numbers)

    def sleeps(self) -> bool:
        """Whether the I/O thread sleeps, and no other thread has its state."""
        return not self.direct._io_lock.locked()

    def waits(self) -> bool:
        """Whether a thread waits on the direct path."""
        return bool(self.direct._is_waiting)

    @contextlib.contextmanager
    def sending_when_waited_for(self, value: bytes = b"") -> Generator[None]:
        """Send a record once a thread waits for it."""

        def send() -> None:
            wait_until(self.waits, "a thread waits")
            self.send(value)

        thread = threading.Thread(target=send)
        thread.start()
        try:
            yield
        finally:
            thread.join(LIMIT_S)

    def close(self) -> None:
        """Close both clients."""
        self.consumer.close()
        self.producer.close(LIMIT_S)
