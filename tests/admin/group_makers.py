"""Makes groups at a broker, with members that send any bytes.

Thread-safety: one thread.
"""

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from kprod.admin.group_admin import GroupAdmin
from kprod.config import ClientConfig
from kprod.config.address import parse_addresses
from kprod.consumer.group.protocol_data import encode_assignment
from kprod.model import TopicPartition
from kprod.network.admin_client import AdminClient
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import response_codec
from kprod.protocol.error_table import ErrorCode
from tests.conformance.group_crew import Crew, subscription
from tests.conformance.sides import Side
from tests.conformance.wire import Target


def connect(address: str, timeout_ms: int = 20_000) -> AdminClient:
    """A client of a cluster."""
    config = ClientConfig(bootstrap_servers=parse_addresses(address), client_id="test")
    return AdminClient(config, timeout_ms=timeout_ms)


def commit(address: str, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit offsets of a group without members."""
    with connect(address) as admin:
        keyed = {TopicPartition(*key): offset for key, offset in offsets.items()}
        assert GroupAdmin(admin).commit(group_id, keyed) == {}


def join(  # noqa: PLR0913 - the fields of a member
    address: str,
    topic: str,
    *,
    metadata: bytes | None = None,
    assignment: bytes | None = None,
    protocol_type: str = "consumer",
    group_id: str | None = None,
    instance: str | None = None,
) -> Crew:
    """Bring one member into a group, which is stable then.

    Args:
        address: Broker that coordinates the group.
        topic: The topic that the member subscribes to.
        metadata: The member's bytes for the leader; a subscription by default.
        assignment: The leader's bytes for the member; all of two partitions by default.
        protocol_type: The group's type.
        group_id: The group; an unused one by default.
        instance: The id of a static member.

    Returns:
        The group; close it, and the member stays until its session ends.
    """
    crew = Crew(
        Side("any", address),
        "highest",
        Target(topic, uuid.UUID(int=0)),
        f"group-{uuid.uuid4().hex}" if group_id is None else group_id,
    )
    if instance is not None:
        crew.instances["A"] = instance
    protocols = [
        {"name": "range", "metadata": subscription(topic) if metadata is None else metadata}
    ]
    crew.join("A", protocols=protocols, protocol_type=protocol_type)
    crew.joined("A")
    if assignment is None:
        assignment = encode_assignment([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    entry = {"member_id": crew.ids["A"], "assignment": assignment}
    body = crew.sync_body("A", assignments=[entry], protocol_type=protocol_type)
    answer = crew.ask("A", ApiKey.SYNC_GROUP, body)
    assert answer["error_code"] == ErrorCode.NONE, answer
    return crew


def leave(crew: Crew) -> None:
    """Let the member leave."""
    body = crew.leave_body((crew.ids["A"], None))
    assert crew.ask("A", ApiKey.LEAVE_GROUP, body)["error_code"] == ErrorCode.NONE


def changed(
    api: ApiKey, version: int, change: Callable[[dict[str, Any]], object]
) -> Callable[[bytes], bytes]:
    """Make a fault that changes the fields of responses.

    Args:
        api: The response's API.
        version: Its version.
        change: Changes the fields.

    Returns:
        The fault, which changes the bytes.
    """
    codec = response_codec(api, version)
    header_bytes = 5 if codec.flexible else 4

    def rewrite(frame: bytes) -> bytes:
        body = codec.decode(memoryview(frame)[header_bytes:])
        change(body)
        return bytes(frame[:header_bytes]) + codec.encode(body)

    return rewrite
