"""ApiVersions: which requests this broker serves, in which versions.

Behaviour.
    A. A version that is not served is answered in version 0 with UNSUPPORTED_VERSION and the
       range of ApiVersions itself, so that a newer client can ask again (KIP-511).
    B. From version 3 the client's software name and version are checked; malformed ones are
       answered with INVALID_REQUEST.
    C. Produce is advertised from version 0, because old librdkafka looks for it there.
Versions: 0 to 4.
Left out: finalized features. None is finalized, so clients use the first transaction protocol.
Source: Kafka ApiVersionsRequest, KIP-35, KIP-511, KAFKA-18659.
"""

import re
from collections.abc import Iterable

from kprod.broker.cluster_state import ClusterState
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_VERSION_WITH_SOFTWARE = 3


class ApiVersionsHandler(Handler):
    """Lists the served APIs with their versions."""

    api_key = ApiKey.API_VERSIONS
    versions: tuple[int, int] = (0, 4)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:  # noqa: ARG002 - every handler takes it
        """Create a handler for a cluster."""
        self._ranges: list[dict[str, int]] = []

    def learn(self, handlers: Iterable[Handler]) -> None:
        """Register all handlers."""
        self._ranges = [
            {
                "api_key": int(handler.api_key),
                "min_version": handler.advertised[0],
                "max_version": handler.advertised[1],
            }
            for handler in handlers
        ]

    def handle(self, request: Request) -> None:
        """Respond immediately."""
        if request.api_version >= _FIRST_VERSION_WITH_SOFTWARE and not (
            _SOFTWARE.fullmatch(request.body["client_software_name"])
            and _SOFTWARE.fullmatch(request.body["client_software_version"])
        ):
            request.answer(self.reject(request, ErrorCode.INVALID_REQUEST))  # case B
            return
        request.answer({"error_code": ErrorCode.NONE, "api_keys": self._ranges})

    def reject(self, request: Request, code: int) -> Body:  # noqa: ARG002 - a Handler's
        """Build a response without API versions."""
        return {"error_code": code, "api_keys": []}


def respond_to_unknown_version(request: Request) -> None:
    """Case A."""
    own = {
        "api_key": int(ApiVersionsHandler.api_key),
        "min_version": ApiVersionsHandler.versions[0],
        "max_version": ApiVersionsHandler.versions[1],
    }
    body = {"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": [own]}
    request.respond_in_version(body, 0)
