"""From the name of a mechanism to the server's side of it.

Thread-safety: pure functions.
"""

from kprod.broker.sasl.identities import Identities
from kprod.broker.sasl.verdict import Verifier
from kprod.broker.sasl.verifiers import PlainVerifier, ScramVerifier


def make_verifier(mechanism: str, identities: Identities) -> Verifier:
    """Make the verifier of one login.

    Args:
        mechanism: One of those that `BrokerSecurity` may have.
        identities: Users and tokens that may log in.

    Returns:
        The server's side of it.
    """
    if mechanism == "PLAIN":
        return PlainVerifier(identities.credentials)
    if identities.bearer_tokens is not None and mechanism == "OAUTHBEARER":
        from kprod.broker.sasl.oauthbearer import OauthBearerVerifier  # noqa: PLC0415 - needs an extra

        return OauthBearerVerifier(identities.bearer_tokens)
    return ScramVerifier(identities.credentials, mechanism, identities.delegation_tokens)
