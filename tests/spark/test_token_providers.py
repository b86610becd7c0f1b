"""A token provider is chosen by an option, and made where it runs."""

import pytest

from kprod.errors import ConfigError
from kprod.providers import azure, msk
from kprod.spark.options import read_options
from kprod.spark.references import resolve
from kprod.spark.token_providers import client_settings

ADDRESS = {
    "bootstrap.servers": "one:9092",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
}
PROVIDER = "sasl.oauth.provider"
REGION = "sasl.oauth.msk.region"
OIDC = {
    "sasl.oauthbearer.token.endpoint.url": "https://idp.test/token",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": "env:CLIENT_SECRET",
}


def test_settings_without_one_are_left_alone() -> None:
    """As they are."""
    assert client_settings(ADDRESS) == ADDRESS


def test_amazon() -> None:
    """A region, and a role or a profile; in either spelling, by reference too."""
    role = {"sasl_oauth_msk_role_arn": "arn:aws:iam::1:role/x"}
    options = read_options({**ADDRESS, PROVIDER: "MSK", f"kafka.{REGION}": "eu-west-1", **role})
    made = client_settings(resolve(options.settings))
    assert made["sasl_oauth_token_provider"] == msk("eu-west-1", role_arn="arn:aws:iam::1:role/x")
    assert not [name for name in made if "msk" in name or name == PROVIDER]
    assert read_options({**ADDRESS, PROVIDER: "msk", REGION: "env:REGION"})


def test_azure() -> None:
    """A scope."""
    made = client_settings({**ADDRESS, PROVIDER: "azure", "sasl.oauth.azure.scope": "https://x/y"})
    assert isinstance(made["sasl_oauth_token_provider"], type(azure("https://x/y")))


def test_an_oidc_server() -> None:
    """Its settings are the client's own."""
    options = read_options({**ADDRESS, PROVIDER: "oidc", **OIDC})
    made = client_settings({**options.settings, "sasl.oauthbearer.client.secret": "x"})
    assert made == {**ADDRESS, **OIDC, "sasl.oauthbearer.client.secret": "x"} | {
        "client.id": "kprod-spark"
    }


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({PROVIDER: "msk"}, "sasl.oauth.provider=msk needs sasl.oauth.msk.region"),
        ({PROVIDER: "azure"}, "sasl.oauth.provider=azure needs sasl.oauth.azure.scope"),
        (
            {PROVIDER: "msk", REGION: "x", "sasl_oauth_msk_region": "y"},
            "sasl.oauth.msk.region and sasl_oauth_msk_region are the same option",
        ),
        ({PROVIDER: "azure", REGION: "x"}, "of no use with sasl.oauth.provider=azure"),
        ({PROVIDER: "oidc"}, "needs sasl.oauthbearer.token.endpoint.url"),
        ({REGION: "x"}, "sasl.oauth.provider must be oidc, msk, azure"),
        ({PROVIDER: "msk", REGION: "x", **OIDC}, "say the same; give one of them"),
    ],
)
def test_options_that_do_not_fit(given: dict[str, str], text: str) -> None:
    """Told before any task."""
    with pytest.raises(ConfigError) as caught:
        read_options({**ADDRESS, **given})
    assert text in str(caught.value)
