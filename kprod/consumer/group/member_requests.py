"""The requests of a member, by version, and the bounds of their responses.

Thread-safety: pure functions.
Source: JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest and
DescribeGroupsRequest (Kafka 4.3.1);
KIP-345 for static members, KIP-800 for reasons.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kprod._core.wire.wire_bounds import Bounds
from kprod.config.settings_slices import GroupSettings
from kprod.consumer.group.coordinator_link import CoordinatorRequest
from kprod.consumer.group.protocol_data import (
    NO_GENERATION,
    PROTOCOL_TYPE,
)
from kprod.protocol.api import ApiKey

_JOIN_GRACE_MS = 5_000  # a coordinator answers a join up to this much after the rebalance timeout
_REASON_CHARS_MAX = 255
_FIRST_WITH_REASON = 8
_FIRST_WITH_PROTOCOL = 5
_FIRST_WITH_MEMBERS = 3
_FIRST_LEAVE_WITH_REASON = 5

# A static member needs versions that have its instance id.
_JOIN, _STATIC_JOIN = (0, 9), (5, 9)
_SYNC, _STATIC_SYNC = (0, 5), (3, 5)
_HEARTBEAT, _STATIC_HEARTBEAT = (0, 4), (3, 4)
_LEAVE, _STATIC_LEAVE = (0, 5), (3, 5)

_DESCRIBE = (0, 5)

_JOIN_BOUNDS = Bounds(memory_bytes=16 * 1024 * 1024)
"""The leader's response has all members: this is enough for some 20,000."""


class Identity(NamedTuple):
    """The identity of a member for its coordinator.

    Attributes:
        member_id: The id that the coordinator gave; empty before the first join.
        generation: The generation of the group; −1 outside of one.
    """

    member_id: str = ""
    generation: int = NO_GENERATION

    @property
    def is_member(self) -> bool:
        """Whether the member belongs to a generation."""
        return self.generation != NO_GENERATION


class MemberRequests:
    """Builds the requests of one member."""

    def __init__(self, settings: GroupSettings) -> None:
        """Keep the settings.

        Args:
            settings: Those of a consumer with a group.
        """
        self._settings = settings
        self._instance_id = settings.group_instance_id or None
        # A coordinator answers a join or a sync when the other members are there.
        self._parked_ms = max(
            settings.request_timeout_ms, settings.max_poll_interval_ms + _JOIN_GRACE_MS
        )

    def join(
        self, member_id: str, offers: Sequence[tuple[str, bytes]], reason: str
    ) -> CoordinatorRequest:
        """Return a JoinGroup request.

        Args:
            member_id: The member's id; empty for none.
            offers: Name and subscription of each assignor, in order of preference.
            reason: Why the member joins, for the brokers' logs.

        Returns:
            The request.
        """
        body = {
            "group_id": self._settings.group_id,
            "session_timeout_ms": self._settings.session_timeout_ms,
            "rebalance_timeout_ms": self._settings.max_poll_interval_ms,
            "member_id": member_id,
            "group_instance_id": self._instance_id,
            "protocol_type": PROTOCOL_TYPE,
            "protocols": [{"name": name, "metadata": offer} for name, offer in offers],
        }
        told = {"reason": reason[:_REASON_CHARS_MAX]}
        return CoordinatorRequest(
            ApiKey.JOIN_GROUP,
            self._versions(_JOIN, _STATIC_JOIN),
            lambda version: {**body, **told} if version >= _FIRST_WITH_REASON else body,
            self._parked_ms,
            _JOIN_BOUNDS,
        )

    def sync(
        self, identity: Identity, protocol: str, assignments: Mapping[str, bytes]
    ) -> CoordinatorRequest:
        """Return a SyncGroup request.

        Args:
            identity: The member's.
            protocol: Name of the group's assignor.
            assignments: Encoded assignments by member id; empty for a follower.

        Returns:
            The request.
        """
        body = {
            **self._known_by(identity),
            "assignments": [
                {"member_id": member, "assignment": it} for member, it in assignments.items()
            ],
        }
        named = {"protocol_type": PROTOCOL_TYPE, "protocol_name": protocol}
        return CoordinatorRequest(
            ApiKey.SYNC_GROUP,
            self._versions(_SYNC, _STATIC_SYNC),
            lambda version: {**body, **named} if version >= _FIRST_WITH_PROTOCOL else body,
            self._parked_ms,
        )

    def heartbeat(self, identity: Identity) -> CoordinatorRequest:
        """Return a Heartbeat request.

        Args:
            identity: The member's.

        Returns:
            The request.
        """
        return CoordinatorRequest(
            ApiKey.HEARTBEAT,
            self._versions(_HEARTBEAT, _STATIC_HEARTBEAT),
            lambda _version: self._known_by(identity),
            min(self._settings.request_timeout_ms, self._settings.session_timeout_ms),
        )

    def leave(self, member_id: str, reason: str) -> CoordinatorRequest:
        """Return a LeaveGroup request.

        Args:
            member_id: The member's id.
            reason: Why it leaves, for the brokers' logs.

        Returns:
            The request.
        """

        def shape(version: int) -> dict[str, Any]:
            group = {"group_id": self._settings.group_id}
            if version < _FIRST_WITH_MEMBERS:
                return {**group, "member_id": member_id}
            member = {"member_id": member_id, "group_instance_id": self._instance_id}
            if version >= _FIRST_LEAVE_WITH_REASON:
                member["reason"] = reason[:_REASON_CHARS_MAX]
            return {**group, "members": [member]}

        return CoordinatorRequest(ApiKey.LEAVE_GROUP, self._versions(_LEAVE, _STATIC_LEAVE), shape)

    def describe(self) -> CoordinatorRequest:
        """Return a DescribeGroups request for the members' assignments.

        Returns:
            The request.
        """
        body = {"groups": [self._settings.group_id]}
        return CoordinatorRequest(
            ApiKey.DESCRIBE_GROUPS, _DESCRIBE, lambda _version: body, bounds=_JOIN_BOUNDS
        )

    def _versions(self, usual: tuple[int, int], static: tuple[int, int]) -> tuple[int, int]:
        return usual if self._instance_id is None else static

    def _known_by(self, identity: Identity) -> dict[str, Any]:
        return {
            "group_id": self._settings.group_id,
            "generation_id": identity.generation,
            "member_id": identity.member_id,
            "group_instance_id": self._instance_id,
        }
