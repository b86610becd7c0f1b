"""Options that choose a token provider, since an option cannot be an object.

`sasl.oauth.provider` names one of the providers that kprod has; nothing is imported by a text. Each
client of a write gets a provider of its own, where it runs.

Thread-safety: pure functions.
"""

from collections.abc import Mapping
from types import MappingProxyType

from kprod import providers
from kprod.config.kinds import Choice
from kprod.config.security_kinds import PlainText
from kprod.config.setting import Group, Setting
from kprod.errors import ConfigError
from kprod.secret import Secret

__all__ = ["PROVIDER_OPTIONS", "client_settings"]

_PROVIDER = "sasl_oauth_provider"
_NAMES = ("oidc", "msk", "azure")
_PARTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "oidc": (),
        "msk": ("region", "role_arn", "profile"),
        "azure": ("scope",),
    }
)
_NEEDED = ("region", "scope")
_OIDC_URL = "sasl_oauthbearer_token_endpoint_url"


def _row(name: str, what: str, text: str) -> tuple[str, Setting]:
    kind = PlainText(what)
    return name, Setting(name.replace("_", "."), kind, Group.SECURITY, text)


PROVIDER_OPTIONS: Mapping[str, Setting] = MappingProxyType(
    {
        _PROVIDER: Setting(
            "sasl.oauth.provider",
            Choice(choices=_NAMES),
            Group.SECURITY,
            "Where tokens come from: an OIDC server, AWS or Azure.",
        ),
        **dict(
            (
                _row("sasl_oauth_msk_region", "a region", "AWS's name, such as `eu-west-1`."),
                _row("sasl_oauth_msk_role_arn", "an ARN", "A role to assume."),
                _row("sasl_oauth_msk_profile", "a name", "A profile of AWS's configuration."),
                _row("sasl_oauth_azure_scope", "a scope", "The scope of Azure's tokens."),
            )
        ),
    }
)
"""The options by name; they are no settings of a client."""


def client_settings(settings: Mapping[str, str | Secret]) -> dict[str, object]:
    """Replace the options of a token provider by the provider.

    Args:
        settings: Settings of a client in any spelling, and options of `PROVIDER_OPTIONS`.

    Returns:
        Settings of a client.

    Raises:
        ConfigError: An option is missing, or is for another provider.
    """
    given = {name: name.lower().replace(".", "_") for name in settings}
    parts = _options(settings, given)
    others: dict[str, object] = {
        each: settings[each] for each, name in given.items() if name not in PROVIDER_OPTIONS
    }
    if not parts:
        return others
    chosen = parts.pop(_PROVIDER, "").lower()
    if chosen not in _NAMES:
        raise ConfigError(
            f"sasl.oauth.provider must be {', '.join(_NAMES)}, as its other options need it"
        )
    if chosen == "oidc" and _OIDC_URL not in given.values():
        raise ConfigError(
            "sasl.oauth.provider=oidc needs sasl.oauthbearer.token.endpoint.url, the client's id"
            " and its secret"
        )
    arguments = _arguments(chosen, parts)
    if chosen == "msk":
        provider: object = providers.msk(arguments.pop("region"), **arguments)
    elif chosen == "azure":
        provider = providers.azure(arguments["scope"])
    else:
        return others
    return {**others, "sasl_oauth_token_provider": provider}


def _options(settings: Mapping[str, str | Secret], given: Mapping[str, str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for written, name in given.items():
        if name in PROVIDER_OPTIONS and options.setdefault(name, str(settings[written])) != str(
            settings[written]
        ):
            raise ConfigError(
                f"{name.replace('_', '.')} and {name} are the same option and were given different"
                " values; give one of them"
            )
    return options


def _arguments(chosen: str, parts: Mapping[str, str]) -> dict[str, str]:
    names = {f"sasl_oauth_{chosen}_{part}": part for part in _PARTS[chosen]}
    for name in parts:
        if name not in names:
            raise ConfigError(f"{name} is of no use with sasl.oauth.provider={chosen}; remove it")
    for name, part in names.items():
        if part in _NEEDED and name not in parts:
            raise ConfigError(f"sasl.oauth.provider={chosen} needs {name.replace('_', '.')}")
    return {names[name]: value for name, value in parts.items()}
