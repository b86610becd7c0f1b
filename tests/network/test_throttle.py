"""The responses that throttle the client."""

import pytest

from kprod.network.throttle import FIRST_VERSION, requested_throttle_ms
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import response_codec


@pytest.mark.parametrize(("version", "expected"), [(5, 0), (6, 30), (13, 30)])
def test_only_newer_versions_mean_the_client(version: int, expected: int) -> None:
    """Before version 6 of Produce the broker itself has waited."""
    assert requested_throttle_ms(ApiKey.PRODUCE, version, {"throttle_time_ms": 30}) == expected


def test_negative_and_unknown_mean_nothing() -> None:
    """A peer's nonsense is no throttle, and neither is a request that is not in the table."""
    assert requested_throttle_ms(ApiKey.PRODUCE, 9, {"throttle_time_ms": -1}) == 0
    assert requested_throttle_ms(ApiKey.SASL_HANDSHAKE, 1, {}) == 0


@pytest.mark.parametrize(("api_key", "version"), sorted(FIRST_VERSION.items()))
def test_each_version_of_the_table_has_the_field(api_key: ApiKey, version: int) -> None:
    """The number would mean nothing in a version whose response has no throttle time."""
    codec = response_codec(api_key, version)

    assert codec.decode(codec.encode({"throttle_time_ms": 77}))["throttle_time_ms"] == 77
