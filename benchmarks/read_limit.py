"""The broker's limit in reading: the same Fetch requests on one connection, answers thrown away.

The requests of one way through the topic are made first, untimed, by following the offsets of the
answers. Then they are sent again and again, two of them out at a time, and their responses are
received into one buffer and not looked at. A reader that asks for as much at a time, on as many
connections, cannot be faster.

Thread-safety: one thread, the caller's.
"""

import socket
import struct

from read_load import FETCH_BYTES, ReadLoad

from kprod._core.record.batch_ends import last_batch

IN_FLIGHT = 2
VERSION = 4  # the oldest with record batches: plain to write and to read
RESPONSE_BYTES_MAX = 50 << 20
RECEIVE_BYTES = 1 << 20
TIMEOUT_S = 60
_PARTITION = struct.Struct(">i hqqi i")  # index, code, watermark, stable offset, aborted, size


def replay(load: ReadLoad) -> None:
    """Read until the load is done."""
    host, _, port = load.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        frames = _frames(connection, load)
        waste = memoryview(bytearray(RECEIVE_BYTES))
        sent = received = 0
        load.begin()
        while load.goes_on:
            while sent - received < IN_FLIGHT:
                connection.sendall(frames[sent % len(frames)][0])
                sent += 1
            _throw_away(connection, waste)
            load.take(frames[received % len(frames)][1], 0)
            received += 1


def _frames(connection: socket.socket, load: ReadLoad) -> list[tuple[bytes, int]]:
    """Requests of one way through the topic, and how many records each is answered with."""
    frames: list[tuple[bytes, int]] = []
    offsets = dict.fromkeys(range(load.partitions), 0)
    while sum(offsets.values()) < load.record_count:
        frame = _request(load.topic, offsets)
        connection.sendall(frame)
        (size_bytes,) = struct.unpack(">i", _received(connection, 4))
        before = sum(offsets.values())
        _follow(memoryview(_received(connection, size_bytes)), load.topic, offsets)
        frames.append((frame, sum(offsets.values()) - before))
    return frames


def _request(topic: str, offsets: dict[int, int]) -> bytes:
    name = struct.pack(">h", len(topic)) + topic.encode()
    client_id = struct.pack(">h", len(b"limit")) + b"limit"
    body = struct.pack(">hhi", 1, VERSION, 1) + client_id
    body += struct.pack(">iiiib", -1, 500, 1, RESPONSE_BYTES_MAX, 0)
    body += struct.pack(">i", 1) + name + struct.pack(">i", len(offsets))
    for partition, offset in offsets.items():
        body += struct.pack(">iqi", partition, offset, FETCH_BYTES)
    return struct.pack(">i", len(body)) + body


def _follow(answer: memoryview, topic: str, offsets: dict[int, int]) -> None:
    """Store the position at which the records of a response end."""
    at = 4 + 4 + 4 + 2 + len(topic)  # correlation id, throttle time, one topic, its name
    (count,) = struct.unpack_from(">i", answer, at)
    at += 4
    for _ in range(count):
        partition, code, _, _, aborted, size_bytes = _PARTITION.unpack_from(answer, at)
        if code or aborted > 0:
            raise RuntimeError(f"partition {partition}: code {code}, {aborted} aborted")
        at += _PARTITION.size
        end = last_batch(answer[at : at + size_bytes])
        if end is not None:
            offsets[partition] = end.next_offset
        at += size_bytes


def _received(connection: socket.socket, size_bytes: int) -> bytearray:
    data = bytearray(size_bytes)
    view = memoryview(data)
    while view:
        count = connection.recv_into(view)
        if not count:
            raise RuntimeError("the broker closed the connection")
        view = view[count:]
    return data


def _throw_away(connection: socket.socket, waste: memoryview) -> None:
    (left,) = struct.unpack(">i", _received(connection, 4))
    while left:
        count = connection.recv_into(waste[:left])
        if not count:
            raise RuntimeError("the broker closed the connection")
        left -= count
