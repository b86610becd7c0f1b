"""Version choice: three ranges, their overlap, and the error when there is none."""

import pytest

from kprod.errors import RemoteProtocolError, UnsupportedVersion
from kprod.protocol.api import ApiKey
from kprod.protocol.api_versions import SUPPORTED, advertised_ranges, choose_version


def test_the_newest_common_version_is_chosen() -> None:
    """Each of the three ranges can be the one that limits."""
    assert choose_version(ApiKey.PRODUCE, {0: (0, 99)}, (3, 99)) == SUPPORTED[ApiKey.PRODUCE][1]
    assert choose_version(ApiKey.PRODUCE, {0: (0, 9)}, (3, 12)) == 9
    assert choose_version(ApiKey.PRODUCE, {0: (0, 11)}, (3, 7)) == 7


def test_a_version_that_the_caller_cannot_use_is_never_chosen() -> None:
    """A broker that offers Produce 0 to 2 only is rejected by a caller that needs 3."""
    with pytest.raises(UnsupportedVersion, match=r"offers 0 to 2.* 3 to 13 can be used"):
        choose_version(ApiKey.PRODUCE, {0: (0, 2)}, (3, 13))


def test_a_request_that_the_broker_lacks_is_named() -> None:
    """The text names the request."""
    with pytest.raises(UnsupportedVersion, match="INIT_PRODUCER_ID"):
        choose_version(ApiKey.INIT_PRODUCER_ID, {0: (0, 9)}, (0, 5))


def test_ranges_are_read_from_the_response() -> None:
    """Unknown API keys are kept; nobody asks for them."""
    entries = [
        {"api_key": 0, "min_version": 0, "max_version": 13},
        {"api_key": 9999, "min_version": 1, "max_version": 1},
    ]
    assert advertised_ranges(entries) == {0: (0, 13), 9999: (1, 1)}


@pytest.mark.parametrize(("low", "high"), [(-1, 3), (4, 3), (-2, -1)])
def test_impossible_ranges_are_rejected(low: int, high: int) -> None:
    """A negative or inverted range is the peer's fault."""
    with pytest.raises(RemoteProtocolError, match="API key 3"):
        advertised_ranges([{"api_key": 3, "min_version": low, "max_version": high}])
