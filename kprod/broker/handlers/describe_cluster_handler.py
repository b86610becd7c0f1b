"""DescribeCluster: the running brokers and the controller.

Behaviour.
    A. An endpoint type other than brokers: UNSUPPORTED_ENDPOINT_TYPE.
Versions: 0 to 2.
Left out: authorized operations, fenced brokers.
Source: KIP-700, KIP-919.
"""

from kprod.broker.cluster_state import CLUSTER_ID, ClusterState
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_BROKERS = 1


class DescribeClusterHandler(Handler):
    """Describes the cluster."""

    api_key = ApiKey.DESCRIBE_CLUSTER
    versions: tuple[int, int] = (0, 2)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately."""
        if request.body["endpoint_type"] != _BROKERS:
            request.answer(self.reject(request, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE))  # case A
            return
        brokers = [
            {"broker_id": node.node_id, "host": node.host, "port": node.port}
            for node in self._state.alive_nodes
        ]
        request.answer(
            {
                "cluster_id": CLUSTER_ID,
                "controller_id": self._state.controller_id,
                "brokers": brokers,
            }
        )

    def reject(self, request: Request, code: int) -> Body:  # noqa: ARG002 - a Handler's
        """Respond with the error code alone."""
        return {"error_code": code, "cluster_id": CLUSTER_ID, "brokers": []}
