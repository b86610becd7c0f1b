"""The setting by which each kind of client gets OAUTHBEARER tokens.

Thread-safety: pure functions; the returned providers are called in the client's threads.
Source: librdkafka's oauthbearer_token_refresh_cb, kafka-python 3.0's and aiokafka 0.14's
AbstractTokenProvider.
"""

import base64
import json
from collections.abc import Callable
from typing import Any


def token_settings(names: str, sign: Callable[[], str]) -> dict[str, Any]:
    """Create the client setting that provides tokens.

    Args:
        names: The kind of client, as for `client_settings`.
        sign: Creates a token.

    Returns:
        One setting, by its name.
    """
    if names == "confluent":
        return {"oauth_cb": lambda _config: _with_end(sign())}
    if names == "kafka":
        return {"sasl_oauth_token_provider": _kafka_python_provider(sign)}
    if names == "aiokafka":
        return {"sasl_oauth_token_provider": _aiokafka_provider(sign)}
    return {"sasl_oauth_token_provider": sign}


def _with_end(token: str) -> tuple[str, float]:
    """Return a token and its expiry in seconds since the epoch, as librdkafka requires."""
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
