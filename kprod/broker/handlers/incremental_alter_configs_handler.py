"""IncrementalAlterConfigs: change some settings of topics.

Behaviour.
    A. An operation sets a setting (0), makes it the cluster's again (1), or adds to a list (2) or
       takes from it (3) the elements given; an element that is there is not added twice. A list
       that is not the topic's own yet begins as the cluster's.
    B. An unknown topic: UNKNOWN_TOPIC_OR_PARTITION; an illegal name: INVALID_TOPIC_EXCEPTION. An
       unknown operation (Kafka: UNKNOWN_SERVER_ERROR), or a null for any but 1: INVALID_REQUEST.
    C. 2 or 3 for a setting that is not a list, a setting that Kafka does not have, or a value that
       cannot be read or is out of bounds: INVALID_CONFIG, and nothing of the resource changes.
    D. A resource twice in the request, a setting twice in a resource, an empty name:
       INVALID_REQUEST.
    E. `validate_only` checks and changes nothing.
Rights: ALTER_CONFIGS on the topic.
Versions: 0 to 1.
Left out: settings of brokers, of groups and of clients: INVALID_REQUEST.
Source: Kafka ConfigurationControlManager.incrementalAlterConfigs, KIP-339.
"""

from collections.abc import Mapping
from typing import Any

from kprod.broker.cluster_state import ClusterState
from kprod.broker.handlers.config_resources import Resource, answered, change_each
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.rejection import Rejected
from kprod.broker.request import Body, Request
from kprod.broker.topic_config import TopicConfig
from kprod.broker.topic_settings import LIST, TOPIC_SETTINGS
from kprod.errors import ConfigError
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


class IncrementalAlterConfigsHandler(Handler):
    """Changes settings."""

    api_key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    versions: tuple[int, int] = (0, 1)
    advertised = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately."""
        dry_run = request.body["validate_only"]

        def change(resource: Resource) -> None:
            request.access.check("ALTER_CONFIGS", "topic", resource["resource_name"])
            overrides = self._overrides(resource)
            self._state.alter_topic(resource["resource_name"], overrides, dry_run=dry_run)

        request.answer(change_each(request.body["resources"], change))

    def reject(self, request: Request, code: int) -> Body:
        """Set the error code for every resource."""
        return {"responses": [answered(it, code, None) for it in request.body["resources"]]}

    def _overrides(self, resource: Resource) -> dict[str, str | None]:
        topic = self._state.topics.get(resource["resource_name"])
        if topic is None:
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)  # case B
        overrides = dict(topic.overrides)
        defaults = TopicConfig.of_cluster(self._state.config).described()
        for operation in resource["configs"]:
            _apply(operation, overrides, defaults)
        return overrides


def _apply(
    operation: Mapping[str, Any], overrides: dict[str, str | None], defaults: Mapping[str, str]
) -> None:
    name, kind, value = operation["name"], operation["config_operation"], operation["value"]
    if not _SET <= kind <= _SUBTRACT or (value is None and kind != _DELETE):
        raise Rejected(
            ErrorCode.INVALID_REQUEST, f"operation {kind} with {value!r} for {name!r}"
        )  # case B
    if kind == _DELETE:
        overrides.pop(name, None)
        return
    if kind == _SET:
        overrides[name] = value
        return
    setting = TOPIC_SETTINGS.get(name)
    if setting is None:
        raise ConfigError(f"there is no setting {name!r} of a topic")  # case C
    if setting.kind != LIST:
        raise ConfigError(f"{name!r} is not a list of elements to add or to take away")  # case C
    present = _elements(overrides.get(name) or defaults.get(name, setting.default))
    given = _elements(value)
    left = [it for it in present if it not in given]
    if kind == _APPEND:
        left = present + [it for it in given if it not in present]
    overrides[name] = ",".join(left)


def _elements(text: str) -> list[str]:
    return [it.strip() for it in text.split(",") if it.strip()]
