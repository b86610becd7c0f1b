"""DescribeConfigs: the settings of topics and of the broker that got the request.

Behaviour.
    A. A topic has all settings of Kafka's; its own are told as such, those of the cluster as the
       broker's, all others as defaults. `topic_settings` says which of them have an effect.
    B. An unknown topic: UNKNOWN_TOPIC_OR_PARTITION.
    C. A broker tells its own settings; of another one, or a name that is not a number:
       INVALID_REQUEST. An empty name asks for the settings changed for all brokers: none.
    D. Any other kind of resource: INVALID_REQUEST.
    E. A resource that is in the request twice is described once.
Rights: DESCRIBE_CONFIGS on the topic, or on the cluster for a broker.
Versions: 1 to 4.
Left out: documentation, a broker's defaults among its synonyms, and those settings of a broker that
    Kafka has and this has not.
Source: Kafka ConfigHelper.describeConfigs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kprod.broker.cluster_state import ClusterState
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.handlers.topic_settings_reply import (
    Told,
    broker_settings,
    described_fields,
    topic_settings,
)
from kprod.broker.rejection import Rejected
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_TOPIC, _BROKER = 2, 4


class DescribeConfigsHandler(Handler):
    """Describes settings."""

    api_key = ApiKey.DESCRIBE_CONFIGS
    versions: tuple[int, int] = (1, 4)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately."""
        different = {
            (entry["resource_type"], entry["resource_name"]): entry
            for entry in request.body["resources"]
        }
        results = [self._one(request, entry) for entry in different.values()]  # case E
        request.answer({"results": results})

    def reject(self, request: Request, code: int) -> Body:
        """Set the error code for every resource."""
        rejected = Rejected(code)
        resources = request.body["resources"]
        return {"results": [_answer(entry, rejected, ()) for entry in resources]}

    def _one(self, request: Request, entry: Mapping[str, Any]) -> dict[str, Any]:
        try:
            told = self._told(request, entry)
        except Rejected as rejected:
            return _answer(entry, rejected, ())
        keys = entry["configuration_keys"]
        wanted = None if keys is None else set(keys)
        has_synonyms = request.body["include_synonyms"]
        configs = [
            described_fields(it, has_synonyms=has_synonyms)
            for it in told
            if wanted is None or it.name in wanted
        ]
        return _answer(entry, None, configs)

    def _told(self, request: Request, entry: Mapping[str, Any]) -> Sequence[Told]:
        name = entry["resource_name"]
        if entry["resource_type"] == _BROKER:
            request.access.check("DESCRIBE_CONFIGS", "cluster")
            if not name:
                return []  # case C
            if name != str(request.node_id):
                raise Rejected(
                    ErrorCode.INVALID_REQUEST,
                    f"broker {request.node_id} was asked for the settings of {name!r}",
                )  # case C
            return broker_settings(self._state.config, self._state.nodes[request.node_id])
        if entry["resource_type"] != _TOPIC:
            raise Rejected(
                ErrorCode.INVALID_REQUEST,
                f"resources of type {entry['resource_type']} have no settings here",
            )  # case D
        request.access.check("DESCRIBE_CONFIGS", "topic", name)
        topic = self._state.topics.get(name)
        if topic is None:
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)  # case B
        return topic_settings(topic, self._state.config)


def _answer(
    entry: Mapping[str, Any], rejected: Rejected | None, configs: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.NONE if rejected is None else rejected.code,
        "error_message": None if rejected is None else rejected.text or None,
        "resource_type": entry["resource_type"],
        "resource_name": entry["resource_name"],
        "configs": list(configs),
    }
