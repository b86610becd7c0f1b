"""A broker asked frame by frame, in any version, over a plain socket.

Nothing of kprod's client stands between a test and the broker but the message tables, so a case can
say what no client would say.

Thread-safety: one thread.
Source: Kafka protocol guide, framing: a size of four bytes, then header and body.
"""

import select
import socket
import struct
import uuid
from collections.abc import Mapping
from typing import Any, Self

from kprod.protocol.api import ApiKey
from kprod.protocol.codec import request_codec, response_codec
from kprod.protocol.headers import decode_response_header, encode_request_header
from kprod.protocol.produce_frame import (
    ProduceFrame,
    TopicRecords,
    produce_request,
)

ANSWER_TIMEOUT_S = 30.0
CLIENT_ID = "conformance"
_SIZE = struct.Struct(">i")


class Wire:
    """One connection to one broker."""

    __slots__ = ("_correlation_id", "_socket", "_stream")

    def __init__(self, address: str) -> None:
        """Connect.

        Args:
            address: `host:port`.
        """
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=ANSWER_TIMEOUT_S)
        self._stream = self._socket.makefile("rb")
        self._correlation_id = 0

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self._stream.close()
        self._socket.close()

    def ask(self, api_key: ApiKey, version: int, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and read its response.

        Args:
            api_key: Key of the request.
            version: Version of request and response.
            body: The request's fields.

        Returns:
            The response's fields.
        """
        self.send(api_key, version, body)
        return self.read(api_key, version)

    def send(self, api_key: ApiKey, version: int, body: Mapping[str, Any]) -> None:
        """Send a request."""
        header = encode_request_header(api_key, version, self._next_id(), CLIENT_ID)
        self.send_frame(header + request_codec(api_key, version).encode(body))

    def send_produce(self, version: int, target: "Target", batch: bytes, *, acks: int) -> None:
        """Send a Produce request with one batch, written by the scatter/gather frame."""
        partition = target.partition, [batch], len(batch)
        request = ProduceFrame(
            version=version,
            correlation_id=self._next_id(),
            client_id=CLIENT_ID,
            acks=acks,
            timeout_ms=int(ANSWER_TIMEOUT_S * 1000),
            transactional_id=None,
            topics=[TopicRecords(target.topic, target.topic_id, [partition])],
        )
        self._socket.sendall(b"".join(produce_request(request)))

    def send_frame(self, frame: bytes) -> None:
        """Send any bytes as one frame."""
        self._socket.sendall(_SIZE.pack(len(frame)) + frame)

    def read(self, api_key: ApiKey, version: int) -> dict[str, Any]:
        """Read the response to the newest request.

        Args:
            api_key: Key of the request.
            version: The response's.

        Returns:
            Its fields.
        """
        frame = self.read_frame()
        correlation_id, body_offset = decode_response_header(api_key, version, frame)
        assert correlation_id == self._correlation_id
        return response_codec(api_key, version).decode(frame[body_offset:])

    def has_answer(self, *, wait_s: float) -> bool:
        """Whether something can be read within a time."""
        ready, _, _ = select.select([self._socket], [], [], wait_s)
        return bool(ready)

    def read_frame(self) -> bytes:
        """Read one frame.

        Returns:
            It, without its size.

        Raises:
            ConnectionResetError: The broker closed the connection.
        """
        prefix = self._stream.read(_SIZE.size)
        if len(prefix) < _SIZE.size:
            raise ConnectionResetError("the broker closed the connection")
        return self._stream.read(_SIZE.unpack(prefix)[0])

    def _next_id(self) -> int:
        self._correlation_id += 1
        return self._correlation_id


class Target:
    """A partition of a topic, by name and by id."""

    __slots__ = ("partition", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: uuid.UUID, partition: int = 0) -> None:
        """Name a place."""
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
