"""How each kind of client is given tokens for OAUTHBEARER.

Thread-safety: functions of their arguments; providers are called in threads of the client's.
Source: librdkafka's oauthbearer_token_refresh_cb, kafka-python 3.0's and aiokafka 0.14's
AbstractTokenProvider.
"""

import base64
import json
from collections.abc import Callable
from typing import Any


def token_settings(names: str, sign: Callable[[], str]) -> dict[str, Any]:
    """Make a client's setting that gives tokens.

    Args:
        names: Of which client, as for `client_settings`.
        sign: Makes a token.

    Returns:
        One setting by its name.
    """
    if names == "confluent":
        return {"oauth_cb": lambda _config: _with_end(sign())}
    if names == "kafka":
        return {"sasl_oauth_token_provider": _kafka_python_provider(sign)}
    if names == "aiokafka":
        return {"sasl_oauth_token_provider": _aiokafka_provider(sign)}
    return {"sasl_oauth_token_provider": sign}


def _with_end(token: str) -> tuple[str, float]:
    """Return a token, and when it ends in seconds since the epoch, which librdkafka wants."""
    claims = token.split(".")[1]
    return token, json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"]


def _kafka_python_provider(sign: Callable[[], str]) -> object:
    from kafka.net.sasl.oauth import AbstractTokenProvider  # noqa: PLC0415 - the client's own

    class Provider(AbstractTokenProvider):  # type: ignore[misc]  # it has no types
        def token(self) -> str:
            return sign()

    return Provider()


def _aiokafka_provider(sign: Callable[[], str]) -> object:
    from aiokafka.abc import AbstractTokenProvider  # noqa: PLC0415 - the client's own

    class Provider(AbstractTokenProvider):  # type: ignore[misc]  # it has no types
        async def token(self) -> str:
            return sign()

    return Provider()
