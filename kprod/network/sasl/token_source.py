"""Selects the source of a client's tokens: a provider, a file, or an OIDC server.

Thread-safety: pure functions; the returned source is called on the login thread.
"""

from kprod.clock import Clock
from kprod.config import SecurityConfig
from kprod.network.sasl.oidc import OidcClient
from kprod.providers import token_file


def token_source(config: SecurityConfig, clock: Clock) -> object:
    """Select the source.

    Args:
        config: Settings with OAUTHBEARER and one source.
        clock: Clock for tokens with a lifetime in seconds.

    Returns:
        A token provider.
    """
    if config.sasl_oauth_token_provider is not None:
        return config.sasl_oauth_token_provider
    if config.sasl_oauthbearer_token_file is not None:
        return token_file(config.sasl_oauthbearer_token_file)
    return OidcClient(config, clock)
