"""Token providers for SASL's OAUTHBEARER: values of `sasl_oauth_token_provider`.

Each is a small object with a method `token`, as an application may write its own. What one needs
besides kprod is imported when it is asked for a token.
"""

from kprod.providers.azure import azure
from kprod.providers.msk import msk
from kprod.providers.token_file import token_file
from kprod.providers.unsecured import unsecured

__all__ = ["azure", "msk", "token_file", "unsecured"]
