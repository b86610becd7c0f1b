"""What a handler of one API is.

Thread-safety: the broker's thread.
"""

from typing import Protocol

from kprod.broker.cluster_state import ClusterState
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey


class Handler(Protocol):
    """Serves one API in a range of versions.

    Attributes:
        api_key: Which API.
        versions: First and last version served.
        advertised: First and last version that ApiVersions tells.
    """

    api_key: ApiKey
    versions: tuple[int, int]
    advertised: tuple[int, int]

    def __init__(self, state: ClusterState) -> None:
        """Serve a cluster."""

    def handle(self, request: Request) -> None:
        """Answer, now or later."""

    def reject(self, request: Request, code: int) -> Body:
        """The response that has this error code in every place for one."""
