"""A consumer's responses are cut at every byte, and every byte of them is spoilt.

A cut costs nothing but time: every record is handed out once and in order. A spoilt byte may be an
error, which names topic, partition and offset where it is about records; the records handed out all
the same are those written, in order, and nothing is left out without an error. What cannot be known
to be wrong is believed, as by Kafka's clients: the first offset of a batch, which no checksum
covers, an offset that was asked for, a broker's address, and how long a broker asks to be spared.

Source: F3 of the list of faults.
"""

from collections.abc import Callable
from typing import Any

import pytest

from kprod.errors import CorruptRecord, KprodError
from kprod.protocol.api import ApiKey
from tests.consumer.reading import scripted_consumer
from tests.network.scripted import Peer, PeerRequest
from tests.network.scripted_logs import Log, LogCluster

POLLS = 200
ERRORS_MAX = 6
BATCHES = 3
WRITTEN = [(number, b"%d" % number) for number in range(2 * BATCHES)]
BASE_OFFSET_BYTES = 8
THROTTLE_AT = {ApiKey.FETCH: 9, ApiKey.LIST_OFFSETS: 9, ApiKey.METADATA: 9, ApiKey.API_VERSIONS: -5}
THROTTLE_BYTES = 4
OTHERS_AT = {  # id, host and port of the broker; the offset
    ApiKey.METADATA: range(14, 32),
    ApiKey.LIST_OFFSETS: range(36, 44),
}
CALM: dict[str, Any] = {
    "request_timeout_ms": 2_000,
    "reconnect_backoff_ms": 10,
    "retry_backoff_ms": 10,
}


class SpoiltCluster(LogCluster):
    """One response of a kind is not what it should be."""

    def __init__(self, log: Log, api_key: ApiKey, spoil: Callable[[bytes], bytes]) -> None:
        """Give the first response of a kind to a function; a shorter frame ends the connection."""
        super().__init__(log)
        self.frame = b""
        self._api_key = api_key
        self._spoil = spoil

    def _answer(self, peer: Peer, node_id: int, request: PeerRequest) -> None:
        if self.frame or request.api_key != self._api_key:
            super()._answer(peer, node_id, request)
            return
        self.frame = Peer.frame(request, self.usual_response(node_id, request))
        spoilt = self._spoil(self.frame)
        peer.transport.from_peer += spoilt
        if len(spoilt) < len(self.frame):
            peer.close()


def written_log() -> Log:
    """Three batches of two records."""
    log = Log()
    for number in range(BATCHES):
        log.append(b"%d" % (2 * number), b"%d" % (2 * number + 1), partition_leader_epoch=0)
    return log


def read(
    api_key: ApiKey, spoil: Callable[[bytes], bytes]
) -> tuple[bytes, list[tuple[int, bytes | None]], list[KprodError]]:
    """Read until all records have come; returns the frame, offsets with values, and errors."""
    cluster = SpoiltCluster(written_log(), api_key, spoil)
    found: list[tuple[int, bytes | None]] = []
    errors: list[KprodError] = []
    with scripted_consumer(cluster, "orders", **CALM) as consumer:
        for _ in range(POLLS):
            if len(found) >= len(WRITTEN) or len(errors) > ERRORS_MAX:
                break
            try:
                found += [(record.offset, record.value) for record in consumer.poll(0.1)]
            except CorruptRecord as error:
                errors.append(error)
                place = ("orders", error.partition)  # the only topic
                consumer.seek(place, error.offset)  # fetches it again
            except KprodError as error:
                errors.append(error)
    return cluster.frame, found, errors


def believed_bytes(api_key: ApiKey, frame: bytes) -> set[int]:
    """The places of those fields."""
    places: set[int] = set()
    at = THROTTLE_AT[api_key] % len(frame)
    places |= {*range(at, at + THROTTLE_BYTES), *OTHERS_AT.get(api_key, ())}
    for _, _, batch in written_log().entries:
        at = frame.find(batch)
        if at >= 0:
            places |= set(range(at, at + BASE_OFFSET_BYTES))
    return places


KINDS = [ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.FETCH]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("api_key", KINDS)
def test_a_cut_at_any_byte_costs_no_record(api_key: ApiKey) -> None:
    """Once and in order."""
    size_bytes = len(read(api_key, bytes)[0])
    for count in range(size_bytes):
        _, found, errors = read(api_key, lambda frame, count=count: frame[:count])  # type: ignore[misc]
        assert (found, errors) == (WRITTEN, []), f"cut behind {count} bytes"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mask", [0xFF, 0x80, 0x01])
@pytest.mark.parametrize("api_key", KINDS)
def test_a_spoilt_byte_leaves_no_record_out_silently(api_key: ApiKey, mask: int) -> None:
    """The records that are handed out are those that were written."""
    frame = read(api_key, bytes)[0]
    for at in sorted(set(range(len(frame))) - believed_bytes(api_key, frame)):

        def spoil(frame: bytes, at: int = at) -> bytes:
            return frame[:at] + bytes([frame[at] ^ mask]) + frame[at + 1 :]

        _, found, errors = read(api_key, spoil)
        where = f"byte {at} of {len(frame)}: {found[:7]}, {[str(it) for it in errors[:2]]}"
        assert all(record in WRITTEN for record in found), where
        assert found == sorted(set(found)), where
        assert errors or found == WRITTEN, where
