"""Reads the throttle time of a response, for which the client must send nothing.

Since KIP-219 a broker responds first and then stops reading for that time. Requests sent meanwhile
would only wait, so the client keeps its batches and lets them grow. With older versions, the broker
waits before it responds.

Thread-safety: pure functions.
Source: KIP-219; shouldClientThrottle of the request types (clients 4.3.1).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kprod.protocol.api import ApiKey

THROTTLE_MS_MAX = 5 * 60 * 1000  # quota windows are seconds; no peer may stop the client for days

FIRST_VERSION: Final[Mapping[ApiKey, int]] = MappingProxyType(
    {
        ApiKey.PRODUCE: 6,
        ApiKey.FETCH: 8,
        ApiKey.LIST_OFFSETS: 3,
        ApiKey.METADATA: 6,
        ApiKey.FIND_COORDINATOR: 2,
        ApiKey.API_VERSIONS: 2,
        ApiKey.CREATE_TOPICS: 3,
        ApiKey.DELETE_TOPICS: 2,
        ApiKey.INIT_PRODUCER_ID: 1,
        ApiKey.ADD_PARTITIONS_TO_TXN: 1,
        ApiKey.ADD_OFFSETS_TO_TXN: 1,
        ApiKey.END_TXN: 1,
        ApiKey.TXN_OFFSET_COMMIT: 1,
    }
)
"""From which version on the client, not the broker, does the waiting."""


def told_throttle_ms(body: Mapping[str, Any]) -> int:
    """Read a response's throttle time, for client or broker to wait.

    Args:
        body: The decoded response.

    Returns:
        Milliseconds, clamped to 0 to `THROTTLE_MS_MAX`.
    """
    return min(max(int(body.get("throttle_time_ms", 0)), 0), THROTTLE_MS_MAX)


def requested_throttle_ms(api_key: ApiKey, version: int, body: Mapping[str, Any]) -> int:
    """Read a response's throttle time, if its version means the client.

    Args:
        api_key: Key of the request.
        version: Version of the response.
        body: The decoded response.

    Returns:
        Milliseconds, at least 0, as the broker wrote it; see `THROTTLE_MS_MAX`.
    """
    first_version = FIRST_VERSION.get(api_key)
    if first_version is None or version < first_version:
        return 0
    return max(int(body.get("throttle_time_ms", 0)), 0)
