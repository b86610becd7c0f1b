"""Token providers for SASL's OAUTHBEARER: values of `sasl_oauth_token_provider`.

Each provider is an object with a method `token`, like an application's own. Packages that a
provider needs are imported when a token is requested.
"""

from kprod.providers.azure import azure
from kprod.providers.msk import msk
from kprod.providers.token_file import token_file
from kprod.providers.unsecured import unsecured

__all__ = ["azure", "msk", "token_file", "unsecured"]
