"""The common part of AlterConfigs and IncrementalAlterConfigs: resources, changed one by one.

Thread-safety: the broker's thread.
Source: Kafka ConfigurationControlManager, ConfigAdminManager (4.3).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from kprod.broker.rejection import Rejected, shortened
from kprod.broker.request import Body
from kprod.broker.topic_checks import check_name
from kprod.errors import ConfigError
from kprod.protocol.error_table import ErrorCode

TOPIC = 2
Resource = Mapping[str, Any]
_identity = itemgetter("resource_type", "resource_name")


def change_each(resources: Sequence[Resource], change: Callable[[Resource], None]) -> Body:
    """Change the settings of each resource; failures do not affect other resources.

    Args:
        resources: The resources of the request.
        change: Changes one topic's settings; raises `Rejected` or `ConfigError`.

    Returns:
        The response.
    """
    counts = Counter(map(_identity, resources))
    return {"responses": [_changed(it, counts[_identity(it)], change) for it in resources]}


def answered(resource: Resource, code: int, text: str | None) -> dict[str, Any]:
    """Build one resource's part of the response."""
    return {
        "error_code": int(code),
        "error_message": text or None,
        "resource_type": resource["resource_type"],
        "resource_name": resource["resource_name"],
    }


def _changed(resource: Resource, count: int, change: Callable[[Resource], None]) -> dict[str, Any]:
    try:
        _check(resource, count)
        change(resource)
    except Rejected as rejected:
        return answered(resource, rejected.code, rejected.text)
    except ConfigError as error:
        return answered(resource, ErrorCode.INVALID_CONFIG, shortened(str(error)))
    return answered(resource, ErrorCode.NONE, None)


def _check(resource: Resource, count: int) -> None:
    if count > 1:
        raise Rejected(ErrorCode.INVALID_REQUEST, "the resource is in the request twice")
    if resource["resource_type"] != TOPIC:
        raise Rejected(
            ErrorCode.INVALID_REQUEST,
            f"resources of type {resource['resource_type']} cannot be changed here",
        )
    if not resource["resource_name"]:
        raise Rejected(ErrorCode.INVALID_REQUEST, "the resource has no name")
    check_name(resource["resource_name"])
    counts = Counter(it["name"] for it in resource["configs"])
    if any(it > 1 for it in counts.values()):
        raise Rejected(ErrorCode.INVALID_REQUEST, "a setting is in the resource twice")
