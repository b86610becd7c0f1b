"""Asks a group's coordinator which partitions the group's members have.

A static leader that comes back within its session assigns nothing (KIP-814), and has not watched
the topics while it was away: partitions that were added meanwhile are nobody's. Java's consumer
does not ask, so there they wait for the next rebalance.

Thread-safety: the I/O thread.
Source: KIP-814; DescribeGroupsRequest (Kafka 4.3.1).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kprod.config.settings_slices import GroupSettings
from kprod.consumer.group.coordinator_link import CoordinatorLink
from kprod.consumer.group.member_requests import MemberRequests
from kprod.consumer.group.protocol_data import decode_assignment
from kprod.errors import KprodError
from kprod.guarded_log import guarded_logger
from kprod.model import TopicPartition
from kprod.network.client_request import Outcome
from kprod.protocol.denials import denial_or_error

_STABLE = "Stable"

_logger = guarded_logger(__name__)


class GroupShares:
    """The question of one member, asked until it is answered."""

    def __init__(
        self, settings: GroupSettings, link: CoordinatorLink, requests: MemberRequests
    ) -> None:
        """Start without a question.

        Args:
            settings: The group's settings.
            link: The coordinator.
            requests: Builds the request.
        """
        self._group_id = settings.group_id
        self._pause_ms = settings.heartbeat_interval_ms  # between two attempts
        self._link = link
        self._requests = requests
        self._is_open = False
        self._is_asking = False
        self._number = 0  # of the question
        self._due_ms = 0
        self._found: frozenset[TopicPartition] | None = None

    def begin(self) -> None:
        """Ask, in the next calls of `take`."""
        self.end()
        self._is_open = True

    def end(self) -> None:
        """Ask no more; a response to an earlier question changes nothing."""
        self._number += 1
        self._is_open = False
        self._found = None
        self._due_ms = 0

    def take(self, now_ms: int) -> frozenset[TopicPartition] | None:
        """Ask if it is time; return the response, once.

        Args:
            now_ms: Monotonic time.

        Returns:
            The partitions that any member has; None without a response.
        """
        found, self._found = self._found, None
        is_due = self._is_open and not self._is_asking and now_ms >= self._due_ms
        if is_due and self._link.ready(now_ms):
            self._is_asking = True
            self._due_ms = now_ms + self._pause_ms
            number = self._number
            request = self._requests.describe()
            self._link.send(request, lambda outcome: self._complete(outcome, number), now_ms)
        return found

    def _complete(self, outcome: Outcome, number: int) -> None:
        self._is_asking = False
        if number != self._number or outcome.body is None:
            return
        try:
            self._found = self._shares_of(outcome.body["groups"])
        except KprodError as error:
            self._is_open = error.retriable
            if not error.retriable:
                _logger.warning("the members' partitions are not known: %s", error)
        else:
            self._is_open = False

    def _shares_of(self, groups: Iterable[Mapping[str, Any]]) -> frozenset[TopicPartition] | None:
        """Return the partitions of the members; None in a rebalance, which assigns all anyway."""
        found: list[TopicPartition] = []
        for entry in groups:
            if entry["error_code"]:
                raise denial_or_error(entry["error_code"], "DESCRIBE", self._group_id)
            if entry["group_state"] != _STABLE:
                return None
            for member in entry["members"]:
                found += decode_assignment(member["member_assignment"])
        return frozenset(found)
