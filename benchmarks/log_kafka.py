"""Apache Kafka's clean start with as many partitions: see P3 in `log.py`.

Kafka's own log says how long loading took.

Thread-safety: one thread.
Source: Kafka 4.3.1, LogManager.loadLogs.
"""

import contextlib
import itertools
import re
import sys
from collections.abc import Callable, Generator

from source_trees import ROOT

from kprod.protocol.api import ApiKey

SEGMENTS = 4
_LOADED = re.compile(r"Loaded (\d+) logs in (\d+) ?ms")


@contextlib.contextmanager
def kafka_starts(count: int, content: bytes) -> Generator[Callable[[], float]]:
    """Fill partitions in Apache Kafka, each with a batch in each of its segments.

    Args:
        count: Number of partitions.
        content: The batch.

    Yields:
        A function that starts Kafka again, and returns the seconds that loading took.
    """
    sys.path.insert(0, str(ROOT))
    from tests.conformance.sides import Side  # noqa: PLC0415 - of the tree
    from tests.conformance.wire import Target  # noqa: PLC0415
    from tests.plugins.kafka_artifacts import fetch  # noqa: PLC0415
    from tests.plugins.kafka_nodes import KafkaNodes  # noqa: PLC0415
    from tests.plugins.kafka_settings import STRONG_JAVA  # noqa: PLC0415

    # Each batch is larger than what a segment has left, so that it starts one.
    settings = {"internal.segment.bytes": str(len(content) + 1)}
    with KafkaNodes(fetch(), java_flags=STRONG_JAVA) as nodes:
        nodes.create_topic("orders", partitions=count, settings=settings)
        with Side("kafka", nodes.address_of(1)).connect() as wire:
            for index, _ in itertools.product(range(count), range(SEGMENTS)):
                target = Target("orders", None, index)  # type: ignore[arg-type]  # asked by name
                wire.send_produce(9, target, content, acks=1)
                wire.read(ApiKey.PRODUCE, 9)
        log = nodes.node(1).directory / "node.log"
        clean = nodes.node(1).directory / "log" / ".kafka_cleanshutdown"

        def started_s() -> float:
            nodes.stop(1)
            assert clean.exists(), "it was killed before it had closed its logs"
            before = len(_LOADED.findall(log.read_text("utf-8")))
            nodes.restart(1)
            loaded_count, elapsed_ms = _LOADED.findall(log.read_text("utf-8"))[before:][-1]
            assert int(loaded_count) >= count
            return int(elapsed_ms) / 1e3

        yield started_s
