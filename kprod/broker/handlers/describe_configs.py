"""DescribeConfigs: the settings of topics that mean something here.

Behaviour.
    A. A topic's own settings are told as such, all others as defaults.
    B. An unknown topic: UNKNOWN_TOPIC_OR_PARTITION. A broker has no settings to tell.
    C. Any other kind of resource: INVALID_REQUEST.
Versions: 1 to 4.
Left out: synonyms, documentation.
Source: Kafka ConfigHelper.describeConfigs.
"""

from collections.abc import Mapping
from typing import Any

from kprod.broker.handlers.handler import Handler
from kprod.broker.request import Body, Request
from kprod.broker.state import ClusterState
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_TOPIC, _BROKER = 2, 4
_OF_TOPIC, _DEFAULT = 1, 5
_STRING, _INTEGER = 2, 5


class DescribeConfigsHandler(Handler):
    """Tells settings."""

    api_key = ApiKey.DESCRIBE_CONFIGS
    versions = (1, 4)
    advertised = versions

    def __init__(self, state: ClusterState) -> None:
        """Serve a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Answer at once."""
        request.answer({"results": [self._one(entry) for entry in request.body["resources"]]})

    def refuse(self, request: Request, code: int) -> Body:
        """The code for every resource."""
        return {"results": [_answer(entry, code, []) for entry in request.body["resources"]]}

    def _one(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        if entry["resource_type"] == _BROKER:
            return _answer(entry, ErrorCode.NONE, [])
        if entry["resource_type"] != _TOPIC:
            return _answer(entry, ErrorCode.INVALID_REQUEST, [])  # case C
        topic = self._state.topics.get(entry["resource_name"])
        if topic is None:
            return _answer(entry, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
        wanted = entry["configuration_keys"]
        settings = [
            _setting(name, value, is_own=name in topic.overrides)
            for name, value in topic.config.described().items()
            if wanted is None or name in wanted
        ]
        return _answer(entry, ErrorCode.NONE, settings)


def _setting(name: str, value: str, *, is_own: bool) -> dict[str, Any]:
    return {
        "name": name,
        "value": value,
        "read_only": False,
        "config_source": _OF_TOPIC if is_own else _DEFAULT,
        "is_sensitive": False,
        "synonyms": [],
        "config_type": _INTEGER if value.lstrip("-").isdigit() else _STRING,
        "documentation": None,
    }


def _answer(entry: Mapping[str, Any], code: int, settings: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "error_code": int(code),
        "error_message": None,
        "resource_type": entry["resource_type"],
        "resource_name": entry["resource_name"],
        "configs": settings,
    }
