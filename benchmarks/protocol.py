"""Reading and writing Metadata, the largest answer a client meets, beside kafka-python and kio.

The figure is time per partition, for one topic with all partitions and for many small topics.

Thread-safety: one thread, the caller's.
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any
from uuid import UUID

from kio.schema.metadata.v12.response import MetadataResponse as KioResponse
from kio.serial import entity_reader
from measure import cost_ns
from report import Contestant, Report, main
from report_values import Metric

from kprod.protocol.api import ApiKey
from kprod.protocol.codec import response_codec

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas the old way
    from kafka.protocol.metadata import MetadataResponse

VERSION = 12
PARTITION_COUNT = 10_000
REPLICAS = [0, 1, 2]


def metadata_bytes(topic_count: int, partition_count: int) -> bytes:
    """Write a Metadata response for a cluster of three.

    Args:
        topic_count: How many topics.
        partition_count: How many partitions each has.

    Returns:
        The body's bytes.
    """
    brokers = [{"node_id": n, "host": f"broker-{n}.example", "port": 9092} for n in REPLICAS]
    partitions = [
        {
            "partition_index": index,
            "leader_id": index % 3,
            "leader_epoch": 5,
            "replica_nodes": REPLICAS,
            "isr_nodes": REPLICAS,
        }
        for index in range(partition_count)
    ]
    topics = [
        {"name": f"topic-{n}", "topic_id": UUID(int=n + 1), "partitions": partitions}
        for n in range(topic_count)
    ]
    body = {"brokers": brokers, "cluster_id": "c", "controller_id": 1, "topics": topics}
    return response_codec(ApiKey.METADATA, VERSION).encode(body)


def readers() -> dict[str, Callable[[bytes], Any]]:
    """Return what reads the bytes, by library."""
    kio_reader = entity_reader(KioResponse)
    return {
        "kprod": response_codec(ApiKey.METADATA, VERSION).decode,
        "kafka-python": MetadataResponse[VERSION].decode,
        "kio": lambda body: kio_reader(body, 0),
    }


def benchmark(report: Report) -> None:
    """Compare the libraries for two shapes of cluster."""
    for shape, topic_count in (("one topic", 1), ("topics of ten", PARTITION_COUNT // 10)):
        body = metadata_bytes(topic_count, PARTITION_COUNT // topic_count)
        contestants = [
            Contestant(name, cost_ns(functools.partial(_work, read, body, PARTITION_COUNT)))
            for name, read in readers().items()
        ]
        metric = Metric(f"decode, {shape}", "ns/partition")
        report.compare(contestants, metric=metric, baseline="kafka-python", rounds=9)


def _work(read: Callable[[bytes], Any], body: bytes, count: int) -> Callable[[], int]:
    def work() -> int:
        read(body)
        return count

    return work


if __name__ == "__main__":
    main("Reading Metadata, 10,000 partitions", benchmark)
