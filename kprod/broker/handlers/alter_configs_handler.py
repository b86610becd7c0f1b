"""AlterConfigs: replace the settings of topics; those that are not named are the cluster's again.

Behaviour.
    A. An unknown topic: UNKNOWN_TOPIC_OR_PARTITION; an illegal name: INVALID_TOPIC_EXCEPTION.
    B. A setting that Kafka does not have, or a value that cannot be read or is out of bounds:
       INVALID_CONFIG, and nothing of the resource changes.
    C. A resource twice in the request, a setting twice in a resource, a null, an empty name:
       INVALID_REQUEST.
    D. `validate_only` checks and changes nothing.
    E. Settings hold for all that happens from then on: segment sizes at the next append, retention
       when it next looks.
Rights: ALTER_CONFIGS on the topic.
Versions: 0 to 2.
Left out: settings of brokers, of groups and of clients: INVALID_REQUEST.
Source: Kafka ConfigurationControlManager.legacyAlterConfigs.
"""

from kprod.broker.cluster_state import ClusterState
from kprod.broker.handlers.config_resources import Resource, answered, change_each
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.rejection import Rejected
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode


class AlterConfigsHandler(Handler):
    """Replaces settings."""

    api_key = ApiKey.ALTER_CONFIGS
    versions: tuple[int, int] = (0, 2)
    advertised = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately."""
        dry_run = request.body["validate_only"]

        def change(resource: Resource) -> None:
            request.access.check("ALTER_CONFIGS", "topic", resource["resource_name"])
            overrides = {it["name"]: it["value"] for it in resource["configs"]}
            for name, value in overrides.items():
                if value is None:
                    raise Rejected(ErrorCode.INVALID_REQUEST, f"the setting {name!r} is null")
            self._state.alter_topic(resource["resource_name"], overrides, dry_run=dry_run)

        request.answer(change_each(request.body["resources"], change))

    def reject(self, request: Request, code: int) -> Body:
        """Set the error code for every resource."""
        return {"responses": [answered(it, code, None) for it in request.body["resources"]]}
