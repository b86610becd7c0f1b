"""Values that an application may return as a token, and values that are rejected unseen."""

import base64
import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod.errors import AuthenticationFailed
from kprod.interfaces import Token
from kprod.network.sasl.token_forms import as_token, claims_of, described
from kprod.secret import Secret

NOW_S = 1_700_000_000.0


def jwt(**claims: Any) -> str:
    """An unsecured token."""
    parts = [{"alg": "none"}, claims]
    texts = [base64.urlsafe_b64encode(json.dumps(it).encode()).decode().strip("=") for it in parts]
    return ".".join([*texts, ""])


@pytest.mark.parametrize(
    ("found", "expires_at"),
    [
        ("opaque", None),
        (jwt(exp=NOW_S + 60, sub="alice"), NOW_S + 60),
        (jwt(exp="soon"), None),
        (("opaque", NOW_S + 60), NOW_S + 60),
        (("opaque", NOW_S + 60, "alice", {"logicalCluster": "lkc-1"}), NOW_S + 60),
        (Token("opaque", NOW_S + 60), NOW_S + 60),
        (Token("opaque"), None),
        (("opaque", int(NOW_S) + 60), NOW_S + 60),
    ],
)
def test_a_token_is_read(found: object, expires_at: float | None) -> None:
    """Texts, tuples as librdkafka's callbacks return them, and kprod's own."""
    token = as_token(found, NOW_S)
    assert token.expires_at == expires_at
    assert token.value.reveal() in ("opaque", found)  # noqa: PLR6201 - some have no hash


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, "a value of type NoneType"),
        (b"canary", "a value of type bytes"),
        (("canary", 1, 2, 3, 4), "a value of type tuple"),
        (Token(cast("str", b"canary")), "a token whose value has type bytes"),
        (("canary", NOW_S + 1, "alice", 5), "extensions of type int"),
        ("", "not a bearer token"),
        ("canary\x01auth=x", "not a bearer token"),
        ("canary canary", "not a bearer token"),
        ("canary\u00e9", "not a bearer token"),
        ("canary" * 20_000, "not a bearer token"),
        (("canary", NOW_S * 1_000), "milliseconds; seconds since 1970 are wanted"),
        (("canary", NOW_S - 5), "a token that expired 5 s ago"),
        (jwt(exp=NOW_S - 5, canary="canary"), "a token that expired 5 s ago"),
        (("canary", "soon"), "an end of type str"),
        (("canary", True), "an end of type bool"),
        (("canary", float("nan")), "an end of type float"),
        (("canary", NOW_S + 1, "alice", {"auth": "canary"}), "an extension with the name 'auth'"),
        (("canary", NOW_S + 1, "alice", {"a b": "c"}), "an extension with the name 'a b'"),
        (("canary", NOW_S + 1, "alice", {"a": "canary\x01"}), "an extension a whose value"),
        (("canary", NOW_S + 1, "alice", {"a": 5}), "an extension a whose value"),
    ],
)
def test_rejected_values(found: object, why: str) -> None:
    """The text says why, and shows nothing of it."""
    with pytest.raises(AuthenticationFailed, match=r"^the token provider returned ") as caught:
        as_token(found, NOW_S)
    assert why in str(caught.value)
    assert "canary" not in str(caught.value)


@given(st.text())
def test_any_text_is_a_token_or_an_error(text: str) -> None:
    """Nothing else comes of it."""
    try:
        assert as_token(text, NOW_S).value.reveal() == text
    except AuthenticationFailed as error:
        assert len(str(error)) < 300  # noqa: PT017 - either is right


@given(st.text() | st.binary().map(lambda it: f"a.{base64.b64encode(it).decode()}.c"))
def test_claims_of_anything(text: str) -> None:
    """A mapping, whatever it is."""
    assert isinstance(claims_of(Secret(text)), dict)


def test_the_text_about_a_rejected_token() -> None:
    """When it ends, and its principal; never the token."""
    text = jwt(exp=NOW_S + 60, aud="kafka", iss="https://idp.test", sub="al\nice")
    told = described(as_token(text, NOW_S), NOW_S)
    expected = "expires in 60 s, audience 'kafka', issuer 'https://idp.test', subject 'al\\\\nice'"
    assert told == expected
    assert described(Token("opaque"), NOW_S) == "its end is not known"


def test_a_token_shows_nothing() -> None:
    """Neither does its text, given as such."""
    assert "canary" not in repr(Token("canary"))
    assert Token(Secret("canary")) == Token("canary")
