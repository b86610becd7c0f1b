"""Where a client's tokens come from, by its settings: a provider, a file, or an OIDC server.

Thread-safety: functions of their arguments; what they return is called on the login thread.
"""

from kprod.clock import Clock
from kprod.config import SecurityConfig
from kprod.network.sasl.oidc import OidcClient
from kprod.providers import token_file


def token_source(config: SecurityConfig, clock: Clock) -> object:
    """Choose the source.

    Args:
        config: With OAUTHBEARER, and one source.
        clock: For the end of tokens that live for a number of seconds.

    Returns:
        What gives tokens, as an application's provider does.
    """
    if config.sasl_oauth_token_provider is not None:
        return config.sasl_oauth_token_provider
    if config.sasl_oauthbearer_token_file is not None:
        return token_file(config.sasl_oauthbearer_token_file)
    return OidcClient(config, clock)
