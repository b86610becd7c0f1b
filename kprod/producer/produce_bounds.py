"""The bounds of a Produce response, and the validation of its numbers.

Used only for a response that is more than an acknowledgement.

Thread-safety: pure functions.
Source: Kafka's ProduceResponse definition (kafka-clients 4.3.1), KIP-467 for records at fault.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kprod._core.wire.wire_bounds import Bounds
from kprod.errors import RemoteProtocolError
from kprod.network.client_request import ANSWER_BYTES
from kprod.producer.batch import ProducerBatch

BASE_OFFSET_MAX = 2**63 - 2**31  # a record's offset is below 2⁶³, however long its batch
_PARTITION_BYTES = 2_048  # the fields of one partition, its topic and its leader's address
_RECORD_ERROR_BYTES = 512


def response_bounds(batches: Sequence[ProducerBatch]) -> Bounds:
    """Return the bounds of the response to a request.

    Args:
        batches: The request's batches, at most one for each partition.

    Returns:
        Bounds for one entry for each partition, and one error for each record.
    """
    count = len(batches)
    record_count = sum(batch.record_count for batch in batches)
    return Bounds(
        memory_bytes=ANSWER_BYTES + _PARTITION_BYTES * count,
        totals={
            "responses": count,
            "partition_responses": count,
            "record_errors": record_count,
            "node_endpoints": count,
        },
        element_bytes={"record_errors": _RECORD_ERROR_BYTES},
    )


def check_response(body: Mapping[str, Any]) -> None:
    """Reject impossible values.

    Args:
        body: A Produce response.

    Raises:
        RemoteProtocolError: A partition, an offset or a timestamp is out of range.
    """
    for topic in body["responses"]:
        for answer in topic["partition_responses"]:
            base_offset, time_ms = answer["base_offset"], answer["log_append_time_ms"]
            if answer["index"] < 0 or not -1 <= base_offset <= BASE_OFFSET_MAX or time_ms < -1:
                raise RemoteProtocolError(
                    f"a Produce response names partition {answer['index']}, base offset"
                    f" {base_offset} and log append time {time_ms}; a partition is at least 0, an"
                    f" offset −1 to {BASE_OFFSET_MAX}, a time at least −1"
                )
