"""A cluster of logs behind memory sockets, for readers: it answers while the client sleeps."""

import functools
from collections.abc import Callable
from typing import Any

from kprod.clock import ManualClock
from kprod.cluster.snapshot import NO_TOPIC_ID
from kprod.network.address_cursor import SocketAddress
from kprod.network.connection_context import NetworkIO
from kprod.protocol.api import ApiKey
from tests.network.scripted import (
    ALL_VERSIONS,
    MemorySelector,
    MemoryTransport,
    Peer,
    PeerRequest,
    ScriptedResolver,
    api_keys,
    metadata_body,
)
from tests.oracle.record_v2 import encode_batch

UNKNOWN_TOPIC_ID = 100
Rule = Callable[["LogCluster", int, PeerRequest], "dict[str, Any] | str | None"]
"""Given node and request: a body, "close", "silence", or None for the usual answer."""


class Log:
    """One partition: encoded entries by their first and last offset."""

    def __init__(self) -> None:
        """Start empty."""
        self.entries: list[tuple[int, int, bytes]] = []
        self.start_offset = 0
        self.leader_id = 1
        self.epoch = 0

    @property
    def end_offset(self) -> int:
        """Behind the last entry."""
        return self.entries[-1][1] + 1 if self.entries else self.start_offset

    def append(self, *values: bytes, **fields: Any) -> None:
        """Put one batch of records behind the others."""
        base = fields.pop("base_offset", self.end_offset)
        rows: list[tuple[int, bytes, bytes, list[tuple[str, bytes | None]]]] = [
            (1_000 + base + index, b"key", value, []) for index, value in enumerate(values)
        ]
        batch = encode_batch(rows, base_offset=base, **fields)
        deltas = fields.get("offset_deltas", range(len(values)))
        self.entries.append((base, base + list(deltas)[-1], batch))

    def read(self, offset: int, bytes_max: int) -> bytes:
        """Entries from the one that holds `offset` on; the last one cut at the limit."""
        stream = b"".join(batch for _, last, batch in self.entries if last >= offset)
        first = next((len(batch) for _, last, batch in self.entries if last >= offset), 0)
        return stream[: max(bytes_max, first)]


class LogCluster:
    """Nodes 1, 2, … at ports 9101, 9102, …; the bootstrap address is node 1's."""

    bootstrap = "127.0.0.1:9101"

    def __init__(self, *logs: Log, topic: str = "orders") -> None:
        """Serve these partitions."""
        self.logs = list(logs)
        self.topic = topic
        self.clock = ManualClock()
        self.selector = MemorySelector()
        self.selector.before_select = self._step
        self.transports: list[MemoryTransport] = []
        self.rules: list[Rule] = []
        self.requests: list[tuple[int, PeerRequest]] = []
        self.io = NetworkIO(
            selector=self.selector,
            resolver=ScriptedResolver(),
            connect=functools.partial(self._connect),
        )

    def count(self, api_key: ApiKey) -> int:
        """How many requests of a kind came in."""
        return sum(request.api_key == api_key for _, request in self.requests)

    def _connect(self, address: SocketAddress) -> MemoryTransport:
        transport = MemoryTransport(address)
        self.transports.append(transport)
        return transport

    def _step(self) -> None:
        self.clock.advance(5)
        for transport in self.transports:
            if transport.is_closed:
                continue
            peer = Peer(transport).accept()
            node_id = transport.address.port - 9100
            for request in peer.requests():
                self.requests.append((node_id, request))
                self._answer(peer, node_id, request)

    def _answer(self, peer: Peer, node_id: int, request: PeerRequest) -> None:
        for rule in self.rules:
            answer = rule(self, node_id, request)
            if answer == "close":
                peer.close()
            elif isinstance(answer, dict):
                peer.respond(request, answer)
            if answer is not None:
                return
        peer.respond(request, self.usual_response(node_id, request))

    def usual_response(self, node_id: int, request: PeerRequest) -> dict[str, Any]:
        """The response of a healthy broker."""
        match request.api_key:
            case ApiKey.API_VERSIONS:
                return {"api_keys": api_keys(ALL_VERSIONS)}
            case ApiKey.METADATA:
                return self._metadata(request)
            case ApiKey.LIST_OFFSETS:
                return self._list_offsets(node_id, request)
            case _:
                return self._fetch(node_id, request)

    def _metadata(self, request: PeerRequest) -> dict[str, Any]:
        nodes = {1, *(log.leader_id for log in self.logs)}
        body = metadata_body(
            {node: ("127.0.0.1", 9100 + node) for node in sorted(nodes)},
            {self.topic: [(log.leader_id, log.epoch) for log in self.logs]},
        )
        names = {entry["name"] for entry in request.body["topics"]}
        known = [entry for entry in body["topics"] if entry["name"] in names and self.logs]
        missing = names - {entry["name"] for entry in known}
        body["topics"] = known + [{"name": name, "error_code": 3} for name in sorted(missing)]
        return body

    def _list_offsets(self, node_id: int, request: PeerRequest) -> dict[str, Any]:
        (topic,) = request.body["topics"]
        partitions = []
        for entry in topic["partitions"]:
            log = self.logs[entry["partition_index"]]
            offset = log.start_offset if entry["timestamp"] == -2 else log.end_offset
            partitions.append(
                {
                    "partition_index": entry["partition_index"],
                    "error_code": 0 if log.leader_id == node_id else 6,
                    "offset": offset,
                }
            )
        return {"topics": [{"name": topic["name"], "partitions": partitions}]}

    def _fetch(self, node_id: int, request: PeerRequest) -> dict[str, Any]:
        (topic,) = request.body["topics"]
        partitions = []
        for entry in topic["partitions"]:
            log = self.logs[entry["partition"]]
            error_code = 0 if log.leader_id == node_id else 6
            if not error_code and not log.start_offset <= entry["fetch_offset"] <= log.end_offset:
                error_code = 1
            if topic.get("topic_id", NO_TOPIC_ID) != NO_TOPIC_ID:
                error_code = UNKNOWN_TOPIC_ID  # metadata gives none
            records = log.read(entry["fetch_offset"], entry["partition_max_bytes"])
            partitions.append(
                {
                    "partition_index": entry["partition"],
                    "error_code": error_code,
                    "records": None if error_code else records,
                }
            )
        named = {"topic": topic["topic"], "topic_id": topic.get("topic_id", NO_TOPIC_ID)}
        return {"responses": [{**named, "partitions": partitions}]}
