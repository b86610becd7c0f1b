"""What another face of a producer needs of it: the parts that a send may have to wait for.

Thread-safety: immutable; each part says its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kprod._core.append import TopicHead
from kprod._core.batch_result import BatchResult
from kprod.cluster.metadata import Metadata
from kprod.producer.buffer_pool import BufferPool
from kprod.producer.topic_opener import TopicOpener


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParts:
    """The parts of one producer.

    Attributes:
        topics: By name, those that are known.
        opener: The steps to a topic's partitions.
        metadata: What those steps wait for.
        pool: The memory that sends wait for.
        max_block_ms: Longest a send may wait, for all of it together.
        start_flush: Makes everything due, any thread; returns the results to wait for, with the
            number of records in each.
    """

    topics: Mapping[str, TopicHead]
    opener: TopicOpener
    metadata: Metadata
    pool: BufferPool
    max_block_ms: int
    start_flush: Callable[[], list[tuple[BatchResult, int]]]
