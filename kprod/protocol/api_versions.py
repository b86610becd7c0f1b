# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Chooses the version of a request: the newest that client, broker and caller support.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

The caller's range matters. Kafka 4 advertises Produce from version 0, since an old librdkafka looks
for it, and rejects lower versions than 3; so a caller says which versions it can really use.

Thread-safety: pure functions.
Source: KIP-35; KAFKA-18659 for Produce.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from kprod.errors import RemoteProtocolError, UnsupportedVersion
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import REQUESTS

SUPPORTED: Final[Mapping[ApiKey, tuple[int, int]]] = MappingProxyType(
    {ApiKey(key): message.versions for key, message in sorted(REQUESTS.items())}
)
"""First and last version that the tables have, by request."""


def advertised_ranges(api_keys: Iterable[Mapping[str, Any]]) -> dict[int, tuple[int, int]]:
    """Turn the `api_keys` of an ApiVersions response into ranges by API key.

    Args:
        api_keys: The decoded entries; unknown API keys are kept.

    Returns:
        First and last version by API key.

    Raises:
        RemoteProtocolError: A range is negative or upside down.
    """
    ranges = {}
    for entry in api_keys:
        low, high = entry["min_version"], entry["max_version"]
        if not 0 <= low <= high:
            text = f"ApiVersions offers versions {low} to {high} of API key {entry['api_key']}"
            raise RemoteProtocolError(text)
        ranges[entry["api_key"]] = (low, high)
    return ranges


def choose_version(
    api_key: ApiKey, advertised: Mapping[int, tuple[int, int]], wanted: tuple[int, int]
) -> int:
    """Choose the newest version that the peer, the tables and the caller have in common.

    Args:
        api_key: The request.
        advertised: The peer's ranges, by API key.
        wanted: First and last version that the caller can use.

    Returns:
        The version.

    Raises:
        UnsupportedVersion: There is none; the text gives all three ranges.
    """
    theirs = advertised.get(api_key)
    ours = SUPPORTED[api_key]
    if theirs is None:
        text = f"the broker does not offer {api_key.name} at all"
        raise UnsupportedVersion(text)
    low = max(theirs[0], ours[0], wanted[0])
    high = min(theirs[1], ours[1], wanted[1])
    if low > high:
        text = (
            f"no common version of {api_key.name}: the broker offers {theirs[0]} to {theirs[1]}, "
            f"kprod knows {ours[0]} to {ours[1]}, {wanted[0]} to {wanted[1]} can be used here"
        )
        raise UnsupportedVersion(text)
    return high
