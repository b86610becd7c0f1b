"""Tokens for Azure Event Hubs by Microsoft's own library (the extra `kprod[azure]`).

Thread-safety: any thread.
Source: azure-identity's DefaultAzureCredential (1.25).
"""

from typing import Any

from kprod.errors import AuthenticationFailed
from kprod.interfaces import Token


class AzureTokens:
    """Asks Azure for a token each time; its library keeps them."""

    __slots__ = ("_credential", "_scope")

    def __init__(self, scope: str, credential: Any = None) -> None:  # noqa: ANN401 - Azure's
        """Set the scope of the tokens.

        Args:
            scope: The scope, such as `https://NAMESPACE.servicebus.windows.net/.default`.
            credential: A credential of azure-identity; None for its default chain.
        """
        self._scope = scope
        self._credential = credential

    def token(self) -> Token:
        """Request a token.

        Returns:
            The token that Azure issued.

        Raises:
            AuthenticationFailed: The extra is not installed.
        """
        if self._credential is None:
            try:
                from azure.identity import DefaultAzureCredential  # noqa: PLC0415 - an extra
            except ImportError:
                raise AuthenticationFailed(
                    "the provider for Azure needs azure-identity: pip install 'kprod[azure]'"
                ) from None
            self._credential = DefaultAzureCredential()
        found = self._credential.get_token(self._scope)
        return Token(found.token, float(found.expires_on))


def azure(scope: str, *, credential: Any = None) -> AzureTokens:  # noqa: ANN401 - Azure's
    """Make a provider for Azure Event Hubs.

    Args:
        scope: The scope, such as `https://NAMESPACE.servicebus.windows.net/.default`.
        credential: A credential of azure-identity; None for its default chain.

    Returns:
        A value for `sasl_oauth_token_provider`.
    """
    return AzureTokens(scope, credential)
