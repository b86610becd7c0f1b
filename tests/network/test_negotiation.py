"""The first exchange: versions, rejections, and an end to both."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from kprod.errors import BrokerError, KprodError, RemoteProtocolError, UnsupportedVersion
from kprod.network.negotiation import Negotiation, software_version
from kprod.protocol.api import ApiKey
from kprod.protocol.api_versions import SUPPORTED
from kprod.protocol.codec import request_codec, response_codec

NEWEST = SUPPORTED[ApiKey.API_VERSIONS][1]


def answer(version: int, body: Mapping[str, Any]) -> memoryview:
    """A response's body."""
    return memoryview(response_codec(ApiKey.API_VERSIONS, version).encode(body))


def rejection(versions: tuple[int, int] | None) -> memoryview:
    """Error 35 in version 0, with or without the range that the broker has."""
    offered = (
        []
        if versions is None
        else [{"api_key": 18, "min_version": versions[0], "max_version": versions[1]}]
    )
    return answer(0, {"error_code": 35, "api_keys": offered})


def test_the_question_is_newest_and_names_the_software() -> None:
    """The newest version carries kprod's name and version, in letters that brokers accept."""
    negotiation = Negotiation()

    body = negotiation.request_body()

    assert negotiation.version == NEWEST
    assert request_codec(ApiKey.API_VERSIONS, NEWEST).encode(body)
    assert body["client_software_name"] == "kprod"
    assert re.fullmatch(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", software_version())


def test_an_answer_gives_ranges_and_features() -> None:
    """Not of requests that kprod does not know; finalized features are kept."""
    taken = Negotiation().take_response(
        answer(
            NEWEST,
            {
                "api_keys": [
                    {"api_key": 0, "min_version": 3, "max_version": 13},
                    {"api_key": 999, "min_version": 0, "max_version": 1},
                ],
                "finalized_features": [
                    {"name": "transaction.version", "max_version_level": 2, "min_version_level": 1}
                ],
                "finalized_features_epoch": 44,
            },
        )
    )

    assert taken is not None
    assert taken[0].versions == {0: (3, 13)}
    assert taken[0].finalized == {"transaction.version": 2}
    assert taken[0].finalized_epoch == 44


@pytest.mark.parametrize(("offered", "expected"), [((0, 2), 2), ((0, 0), 0), (None, 0)])
def test_an_older_broker_is_asked_in_its_own_version(
    offered: tuple[int, int] | None, expected: int
) -> None:
    """Error 35 comes in the layout of version 0 and most often tells what would do."""
    negotiation = Negotiation()

    assert negotiation.take_response(rejection(offered)) is None
    assert negotiation.version == expected
    taken = negotiation.take_response(answer(expected, {"api_keys": []}))
    assert taken is not None


def test_a_broker_that_always_rejects_is_given_up() -> None:
    """Each try is in a strictly lower version, so there are at most as many as versions."""
    negotiation, tried = Negotiation(), [NEWEST]
    while negotiation.version > 0:
        assert negotiation.take_response(rejection((0, 32_767))) is None
        tried.append(negotiation.version)
    with pytest.raises(UnsupportedVersion, match="rejects ApiVersions"):
        negotiation.take_response(rejection((0, 32_767)))

    assert tried == list(range(NEWEST, -1, -1))


def test_a_broker_without_a_common_version_is_given_up() -> None:
    """A range wholly above the versions left to try."""
    with pytest.raises(UnsupportedVersion, match="offers versions 9 to 12"):
        Negotiation().take_response(rejection((9, 12)))


def test_another_error_is_raised() -> None:
    """Such as error 42, a software name that the broker does not like."""
    with pytest.raises(BrokerError) as raised:
        Negotiation().take_response(answer(NEWEST, {"error_code": 42}))

    assert raised.value.code == 42


def test_truncated_at_every_byte() -> None:
    """One kind of error, at whatever length."""
    whole = answer(
        NEWEST,
        {"api_keys": [{"api_key": key, "min_version": 0, "max_version": 3} for key in range(5)]},
    )
    for length in range(len(whole)):
        with pytest.raises(RemoteProtocolError):
            Negotiation().take_response(whole[:length])


def test_an_upside_down_range_is_rejected() -> None:
    """Nothing could be chosen from it."""
    with pytest.raises(KprodError):
        Negotiation().take_response(
            answer(NEWEST, {"api_keys": [{"api_key": 0, "min_version": 5, "max_version": 3}]})
        )
