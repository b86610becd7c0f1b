"""CreateTopics: creates topics independently of each other.

Behaviour.
    A. Any broker makes topics; Kafka's controller rule shows nowhere.
    B. −1 partitions or replicas take the cluster's defaults.
    C. An assignment of replicas must be for partitions 0 to n−1, all alike in size, and excludes
       the two numbers: else INVALID_REPLICA_ASSIGNMENT or INVALID_REQUEST.
    D. A name twice in one request: INVALID_REQUEST for both.
    E. A setting that Kafka does not have, a null, or a value that cannot be read or is out of
       bounds: INVALID_CONFIG. Settings of Kafka's that mean nothing here are accepted, whatever the
       value.
    F. `validate_only` checks and makes nothing; the response is that of a topic that was made.
    G. From version 5 the response tells the topic's numbers and all of its settings.
    H. More than 10,000 topics and partitions in one request: POLICY_VIOLATION for every topic;
       more than the cluster may have (`topics_max`, `partitions_max`): for the topic.
    I. A long request is handled in slices; its topics appear one by one.
Rights: CREATE on the cluster, or on the topic.
Versions: 2 to 7.
Left out: the id of a topic that is only checked.
Source: Kafka ReplicationControlManager.createTopics.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from kprod.broker.cluster_state import ClusterState
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.handlers.topic_settings_reply import created_fields, topic_settings
from kprod.broker.rejection import Rejected, shortened
from kprod.broker.request import Body, Request
from kprod.broker.topic_checks import check_additions
from kprod.broker.work_slices import TOPIC_COST, run_in_slices
from kprod.errors import ConfigError
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_FIRST_VERSION_WITH_NUMBERS = 5
_FIRST_VERSION_WITH_TOPIC_IDS = 7


class CreateTopicsHandler(Handler):
    """Makes topics."""

    api_key = ApiKey.CREATE_TOPICS
    versions: tuple[int, int] = (2, 7)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Create the topics; respond when each is created or rejected."""
        entries = request.body["topics"]
        try:
            check_additions(sum(map(self._additions, entries)))
        except Rejected as rejected:
            topics = [_rejected(entry, rejected.code, rejected.text) for entry in entries]
            request.answer({"topics": topics})  # case H
            return
        answers: list[dict[str, Any]] = []
        run_in_slices(
            request,
            self._each(request, answers),
            lambda: request.answer({"topics": answers}),
            self._state.soon,
        )

    def reject(self, request: Request, code: int) -> Body:  # a Handler's
        """Set the error code for every topic."""
        return {"topics": [_rejected(entry, code, None) for entry in request.body["topics"]]}

    def _additions(self, entry: Mapping[str, Any]) -> int:
        count: int = entry["num_partitions"]
        if count == -1:
            count = len(entry["assignments"]) or self._state.config.default_partitions
        return 1 + max(count, 0)

    def _each(self, request: Request, answers: list[dict[str, Any]]) -> Iterator[int]:
        """Case I: one topic at a time."""
        entries = request.body["topics"]
        counts = Counter(entry["name"] for entry in entries)
        for entry in entries:
            answers.append(self._one(request, entry, counts[entry["name"]]))
            yield TOPIC_COST * self._additions(entry)

    def _one(self, request: Request, entry: Mapping[str, Any], count: int) -> dict[str, Any]:
        if count > 1:
            text = "the name is twice in the request"
            return _rejected(entry, ErrorCode.INVALID_REQUEST, text)  # case D
        try:
            return self._made(request, entry)
        except Rejected as rejected:
            return _rejected(entry, rejected.code, rejected.text)
        except ConfigError as error:
            return _rejected(entry, ErrorCode.INVALID_CONFIG, shortened(str(error)))  # case E

    def _made(self, request: Request, entry: Mapping[str, Any]) -> dict[str, Any]:
        if not request.access.may("CREATE", "cluster"):
            request.access.check("CREATE", "topic", entry["name"])
        is_dry_run = request.body["validate_only"]
        topic = self._state.create_topic(
            entry["name"],
            partition_count=entry["num_partitions"],
            replication_factor=entry["replication_factor"],
            overrides=_overrides(entry),
            assignment=_assignment(entry),
            dry_run=is_dry_run,
        )
        answer = _rejected(entry, ErrorCode.NONE, None)
        if not is_dry_run and request.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS:
            answer["topic_id"] = topic.topic_id
        if request.api_version >= _FIRST_VERSION_WITH_NUMBERS:
            answer["num_partitions"] = topic.partition_count
            answer["replication_factor"] = topic.replication_factor
            answer["configs"] = list(map(created_fields, topic_settings(topic, self._state.config)))
        return answer


def _overrides(entry: Mapping[str, Any]) -> dict[str, str | None]:
    overrides: dict[str, str | None] = {it["name"]: it["value"] for it in entry["configs"]}
    for name, value in overrides.items():
        if value is None:
            raise Rejected(ErrorCode.INVALID_CONFIG, f"the setting {name!r} is null")  # case E
    return overrides


def _assignment(entry: Mapping[str, Any]) -> list[list[int]] | None:
    assignments = entry["assignments"]
    if not assignments:
        return None
    if entry["num_partitions"] != -1 or entry["replication_factor"] != -1:
        raise Rejected(
            ErrorCode.INVALID_REQUEST,
            "an assignment excludes partition count and replication factor",
        )
    nodes = {it["partition_index"]: list(it["broker_ids"]) for it in assignments}
    if sorted(nodes) != list(range(len(assignments))):
        raise Rejected(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"the partitions assigned are not 0 to {len(assignments) - 1}, each once",
        )
    return [nodes[index] for index in range(len(nodes))]


def _rejected(entry: Mapping[str, Any], code: int, text: str | None) -> dict[str, Any]:
    return {"name": entry["name"], "error_code": int(code), "error_message": text}
