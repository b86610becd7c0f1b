"""Negotiates API versions: the first exchange on every connection.

The client sends its newest version of ApiVersions. An older broker responds with error 35 in the
layout of version 0, usually with its own range, and the client repeats the request in a common
version. Each further attempt uses a strictly lower version, so it ends even if a peer always
responds with 35.

Thread-safety: one thread. No I/O here.
Source: KIP-35, KIP-511; Kafka's NetworkClient.handleApiVersionsResponse (clients 4.3.1).
"""

import functools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kprod._core.wire.wire_bounds import Bounds
from kprod.errors import RemoteProtocolError, UnsupportedVersion
from kprod.protocol.api import ApiKey
from kprod.protocol.api_versions import SUPPORTED, advertised_ranges
from kprod.protocol.codec import response_codec
from kprod.protocol.error_table import ErrorCode, error_for
from kprod.version import __version__

SOFTWARE_NAME = "kprod"
_ERROR_CODE_BYTES = 2  # the first field in every version
_BOUNDS = Bounds(
    memory_bytes=48 * 1024,  # a hundred version ranges and a few features
    totals={"api_keys": len(SUPPORTED)},
    chosen={"api_keys": ("api_key", frozenset(map(int, SUPPORTED)))},
    unread={"supported_features"},
)


class BrokerFeatures(NamedTuple):
    """The versions and features that a broker supports.

    Attributes:
        versions: First and last version by API key, for the APIs that kprod implements.
        finalized: Finalized features of the cluster with their levels.
        finalized_epoch: Epoch of the finalized features; −1 if unknown.
    """

    versions: Mapping[int, tuple[int, int]]
    finalized: Mapping[str, int]
    finalized_epoch: int


class Negotiation:
    """The exchange on one connection."""

    __slots__ = ("version",)

    def __init__(self) -> None:
        """Start with the newest version."""
        self.version: int = SUPPORTED[ApiKey.API_VERSIONS][1]

    def request_body(self) -> dict[str, Any]:
        """Return the request body, to be encoded in `version`.

        Returns:
            An ApiVersions request body.
        """
        return {
            "client_software_name": SOFTWARE_NAME,
            "client_software_version": software_version(),
        }

    def take_response(self, body: memoryview) -> tuple[BrokerFeatures, Mapping[str, Any]] | None:
        """Decode the response.

        Args:
            body: The response without its header.

        Returns:
            The broker's versions, and the decoded body; None if the request must be repeated in the
            lower `version` chosen.

        Raises:
            BrokerError: The broker rejects the request for another reason than its version.
            UnsupportedVersion: There is no lower version.
            RemoteProtocolError: The response is malformed.
        """
        if len(body) < _ERROR_CODE_BYTES:
            raise RemoteProtocolError(f"an ApiVersions response has {len(body)} bytes")
        code = int.from_bytes(body[:_ERROR_CODE_BYTES], "big", signed=True)
        if code == ErrorCode.UNSUPPORTED_VERSION:
            self._go_lower(self._offered(body))
            return None
        decoded = response_codec(ApiKey.API_VERSIONS, self.version).decode(body, _BOUNDS)
        if code:
            rejection = error_for(code, "the broker rejected ApiVersions")
            raise rejection
        features = BrokerFeatures(
            advertised_ranges(decoded["api_keys"]),
            {
                feature["name"]: feature["max_version_level"]
                for feature in decoded.get("finalized_features", ())
            },
            decoded.get("finalized_features_epoch", -1),
        )
        return features, decoded

    def _offered(self, body: memoryview) -> tuple[int, int]:
        """Return the range in an error response; all lower versions if the layout differs."""
        try:
            rejection = response_codec(ApiKey.API_VERSIONS, 0).decode(body, _BOUNDS)
        except RemoteProtocolError:
            # librdkafka's mock cluster (2.16) writes its error response in a newer layout.
            return 0, self.version - 1
        return advertised_ranges(rejection["api_keys"]).get(ApiKey.API_VERSIONS, (0, 0))

    def _go_lower(self, offered: tuple[int, int]) -> None:
        lower = min(offered[1], self.version - 1)
        if lower < max(offered[0], SUPPORTED[ApiKey.API_VERSIONS][0]):
            raise UnsupportedVersion(
                f"the broker rejects ApiVersions in version {self.version}, and offers versions"
                f" {offered[0]} to {offered[1]}; kprod has none of them that it has not tried"
            )
        self.version = lower


@functools.cache
def software_version() -> str:
    """The version of kprod in the alphabet that brokers accept (KIP-511).

    Returns:
        Letters, digits, dots and hyphens.
    """
    return re.sub(r"[^A-Za-z0-9.-]", "-", __version__).strip(".-")
