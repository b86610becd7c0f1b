"""Group administration: list, describe and delete groups, and change their committed offsets.

Thread-safety: the client's thread.
Source: Kafka KafkaAdminClient and its handlers (clients 4.3.1); KIP-222, KIP-496, KIP-518,
KIP-848, KIP-1043.
"""

import contextlib
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any

from kprod.admin.coordinators import Coordinators
from kprod.admin.group_answers import described_classic, described_consumers, listing_of
from kprod.admin.group_values import (
    CLASSIC,
    CONSUMER,
    DEAD,
    CommittedOffset,
    FoundGroups,
    GroupDescription,
    GroupListing,
)
from kprod.consumer.group.protocol_data import by_topic
from kprod.errors import BrokerError, KprodError, RemoteProtocolError, UnsupportedVersion
from kprod.model import Node, TopicPartition
from kprod.network.admin_client import AdminClient, Question
from kprod.peer_text import peer_text
from kprod.protocol.api import ApiKey
from kprod.protocol.denials import denial_or_error
from kprod.protocol.error_table import ErrorCode
from kprod.wording import counted

_LIST_VERSIONS = (0, 5)
_FIRST_WITH_STATES, _FIRST_WITH_TYPES = 4, 5
_DESCRIBE_VERSIONS = (0, 6)
_DESCRIBE_CONSUMERS_VERSIONS = (0, 1)
_FETCH_VERSIONS = (8, 9)  # version 10 has topic ids
_OLD_FETCH_VERSIONS = (2, 7)  # one group; the first in which null means all partitions
_COMMIT_VERSIONS = (2, 9)  # version 10 has topic ids
_OFFSET_DELETE_VERSIONS = (0, 0)
_DELETE_VERSIONS = (0, 2)
_NO_GENERATION, _NO_MEMBER = -1, ""


class GroupAdmin:
    """The groups of a cluster.

    Args:
        admin: A client of the cluster.
    """

    __slots__ = ("_admin", "_coordinators")

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._coordinators = Coordinators(admin)

    def list_groups(
        self, *, states: Collection[str] = (), types: Collection[str] = ()
    ) -> FoundGroups:
        """Ask every broker for its groups.

        Args:
            states: Only groups in one of these states; all if there are none.
            types: Only groups of these types, such as `classic`; all if there are none.

        Returns:
            The groups that this client may describe, and the errors of brokers.

        Raises:
            ConnectionFailed, KprodTimeout: No broker has told of the cluster.
        """
        groups: dict[str, GroupListing] = {}
        errors: dict[int, KprodError] = {}
        question = _listing_question(states, types)
        for node in self._admin.nodes():
            try:
                body = self._coordinators.ask_node(node.node_id, question)
                self._check(body["error_code"], "DESCRIBE", "")
            except KprodError as error:
                errors[node.node_id] = error
                continue
            for entry in body["groups"]:
                groups[entry["group_id"]] = listing_of(entry, node.node_id)
            self._coordinators.note((it["group_id"] for it in body["groups"]), node.node_id)
        return FoundGroups(sorted(groups.values()), errors)

    def describe(self, group_id: str) -> GroupDescription:
        """Describe a group.

        Args:
            group_id: The group.

        Returns:
            Its state and members.

        Raises:
            BrokerError: There is no such group (GROUP_ID_NOT_FOUND), or the cluster rejects the
                request.
            KprodError: The request failed.
        """
        body, node = self._ask(group_id, ApiKey.DESCRIBE_GROUPS, {"groups": [group_id]})
        entry = _only(body["groups"])
        if entry["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND or entry["group_state"] == DEAD:
            return self._describe_other(group_id, node)
        self._check(entry["error_code"], "DESCRIBE", group_id, entry.get("error_message"))
        return described_classic(entry, node)

    def committed(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets of a group.

        Args:
            group_id: The group; one that does not exist has no offsets.

        Returns:
            Offsets by partition, sorted; those of topics that this client may not describe are
            left out by the coordinator.

        Raises:
            KprodError: The cluster rejects the request, or it failed.
        """
        body = self._fetch(group_id)
        self._check(body["error_code"], "DESCRIBE", group_id)
        found = {}
        for topic in body["topics"]:
            for entry in topic["partitions"]:
                self._check(entry["error_code"], "DESCRIBE", topic["name"])
                if entry["committed_offset"] >= 0:
                    key = TopicPartition(topic["name"], entry["partition_index"])
                    found[key] = CommittedOffset(
                        entry["committed_offset"],
                        entry["committed_leader_epoch"],
                        entry["metadata"] or "",
                    )
        return dict(sorted(found.items()))

    def _fetch(self, group_id: str) -> dict[str, Any]:
        wanted = {"group_id": group_id, "topics": None}
        try:
            body, _ = self._ask(group_id, ApiKey.OFFSET_FETCH, {"groups": [wanted]})
            return _only(body["groups"])
        except UnsupportedVersion:  # before Kafka 3.0
            question = Question(
                ApiKey.OFFSET_FETCH, wanted, _OLD_FETCH_VERSIONS, is_repeatable=True
            )
            return self._coordinators.ask(group_id, question)[0]

    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, BrokerError]:
        """Set committed offsets of a group without members.

        Args:
            group_id: The group; it is created if it does not exist.
            offsets: Offsets by partition, at least 0.

        Returns:
            Errors by partition; UNKNOWN_MEMBER_ID if the group has members.

        Raises:
            KprodError: The request failed; the offsets may have been set.
        """
        if not offsets:
            return {}
        topics = [
            {
                "name": entry["topic"],
                "partitions": [
                    {
                        "partition_index": number,
                        "committed_offset": offsets[TopicPartition(entry["topic"], number)],
                        "committed_leader_epoch": -1,
                        "committed_metadata": "",
                    }
                    for number in entry["partitions"]
                ],
            }
            for entry in by_topic(offsets)
        ]
        fields = {
            "group_id": group_id,
            "generation_id_or_member_epoch": _NO_GENERATION,
            "member_id": _NO_MEMBER,
            "topics": topics,
        }
        body, _ = self._ask(group_id, ApiKey.OFFSET_COMMIT, fields)
        return self._errors(group_id, body["topics"], ("READ", "READ"))

    def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, BrokerError]:
        """Delete committed offsets of topics that the group does not subscribe to.

        Args:
            group_id: The group.
            partitions: The partitions.

        Returns:
            Errors by partition; GROUP_SUBSCRIBED_TO_TOPIC if a member subscribes to the topic.

        Raises:
            BrokerError: There is no such group, or it has members that are not consumers.
            KprodError: The request failed; the offsets may have been deleted.
        """
        topics = [
            {
                "name": entry["topic"],
                "partitions": [{"partition_index": number} for number in entry["partitions"]],
            }
            for entry in by_topic(partitions)
        ]
        if not topics:
            return {}
        fields = {"group_id": group_id, "topics": topics}
        body, _ = self._ask(group_id, ApiKey.OFFSET_DELETE, fields)
        self._check(body["error_code"], "DELETE", group_id)
        return self._errors(group_id, body["topics"], ("DELETE", "READ"))

    def delete(self, group_id: str) -> None:
        """Delete a group without members, with its offsets.

        Args:
            group_id: The group.

        Raises:
            BrokerError: There is no such group, or it has members (NON_EMPTY_GROUP).
            KprodError: The request failed; the group may have been deleted.
        """
        body, _ = self._ask(
            group_id, ApiKey.DELETE_GROUPS, {"groups_names": [group_id]}, is_repeatable=False
        )
        self._check(_only(body["results"])["error_code"], "DELETE", group_id)

    def _describe_other(self, group_id: str, node: Node) -> GroupDescription:
        """Describe a group of another type, at least as far as its listing tells of it."""
        body = self._coordinators.ask_node(node.node_id, _listing_question((), ()))
        listings = [listing_of(entry, node.node_id) for entry in body["groups"]]
        found = next((it for it in listings if it.group_id == group_id), None)
        if found is None or found.group_type in {"", CLASSIC}:
            code = ErrorCode.GROUP_ID_NOT_FOUND
            raise denial_or_error(code, "", message=f"the cluster has no group {group_id!r}")
        if found.group_type == CONSUMER:
            with contextlib.suppress(UnsupportedVersion):
                return self._describe_consumers(group_id)
        return GroupDescription(
            group_id,
            found.state,
            found.group_type,
            found.protocol_type,
            assignor="",
            coordinator=node,
            members=None,
        )

    def _describe_consumers(self, group_id: str) -> GroupDescription:
        """Describe a group whose members use KIP-848's protocol."""
        fields = {"group_ids": [group_id], "include_authorized_operations": False}
        body, node = self._ask(group_id, ApiKey.CONSUMER_GROUP_DESCRIBE, fields)
        entry = _only(body["groups"])
        self._check(entry["error_code"], "DESCRIBE", group_id, entry["error_message"])
        return described_consumers(entry, node)

    def _ask(
        self, group_id: str, api_key: ApiKey, body: Mapping[str, Any], *, is_repeatable: bool = True
    ) -> tuple[dict[str, Any], Node]:
        question = Question(api_key, body, _VERSIONS[api_key], is_repeatable=is_repeatable)
        return self._coordinators.ask(group_id, question)

    def _check(self, code: int, operation: str, name: str, message: str | None = "") -> None:
        if code != ErrorCode.NONE:
            raise self._error(code, operation, name, message)

    def _error(self, code: int, operation: str, name: str, message: str | None = "") -> BrokerError:
        text = message or (f"group {peer_text(name)!r}" if name else "")
        if code == ErrorCode.NON_EMPTY_GROUP:
            text += " has members: stop them, or wait until their sessions are over"
        principal = self._admin.principal
        return denial_or_error(code, operation, name, principal=principal, message=text)

    def _errors(
        self, group_id: str, topics: Iterable[Mapping[str, Any]], rights: tuple[str, str]
    ) -> dict[TopicPartition, BrokerError]:
        group_right, topic_right = rights
        errors = {}
        for topic in topics:
            for entry in topic["partitions"]:
                code = entry["error_code"]
                if code == ErrorCode.NONE:
                    continue
                is_topic = code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
                make = partial(self._error, code)
                errors[TopicPartition(topic["name"], entry["partition_index"])] = (
                    make(topic_right, topic["name"]) if is_topic else make(group_right, group_id)
                )
        return errors


_VERSIONS = {
    ApiKey.CONSUMER_GROUP_DESCRIBE: _DESCRIBE_CONSUMERS_VERSIONS,
    ApiKey.DESCRIBE_GROUPS: _DESCRIBE_VERSIONS,
    ApiKey.OFFSET_FETCH: _FETCH_VERSIONS,
    ApiKey.OFFSET_COMMIT: _COMMIT_VERSIONS,
    ApiKey.OFFSET_DELETE: _OFFSET_DELETE_VERSIONS,
    ApiKey.DELETE_GROUPS: _DELETE_VERSIONS,
}


def _listing_question(states: Collection[str], types: Collection[str]) -> Question:
    first, last = _LIST_VERSIONS
    if states:
        first = _FIRST_WITH_STATES
    if types:
        first = _FIRST_WITH_TYPES
    body = {"states_filter": list(states), "types_filter": list(types)}
    return Question(ApiKey.LIST_GROUPS, body, (first, last), is_repeatable=True)


def _only(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the only entry of a response about one group."""
    if len(entries) != 1:
        raise RemoteProtocolError(
            f"a response about one group has {counted(len(entries), 'entry', 'entries')}"
        )
    return entries[0]
