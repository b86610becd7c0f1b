"""The interface of an API handler.

Thread-safety: the broker's thread.
"""

from typing import Protocol

from kprod.broker.cluster_state import ClusterState
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey


class Handler(Protocol):
    """Serves one API in a range of versions.

    Attributes:
        api_key: The API's key.
        versions: First and last version served.
        advertised: First and last version in ApiVersions responses.
    """

    api_key: ApiKey
    versions: tuple[int, int]
    advertised: tuple[int, int]

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""

    def handle(self, request: Request) -> None:
        """Respond, immediately or later."""

    def reject(self, request: Request, code: int) -> Body:
        """Build a response with the error code in every place for one."""
