"""Creates the server side of a SASL mechanism by its name.

Thread-safety: pure functions.
"""

from kprod.broker.sasl.identities import Identities
from kprod.broker.sasl.verdict import Verifier
from kprod.broker.sasl.verifiers import PlainVerifier, ScramVerifier


def make_verifier(mechanism: str, identities: Identities) -> Verifier:
    """Create the verifier for one login.

    Args:
        mechanism: A mechanism that `BrokerSecurity` allows.
        identities: The users and tokens that may log in.

    Returns:
        The verifier.
    """
    if mechanism == "PLAIN":
        return PlainVerifier(identities.credentials)
    if identities.bearer_tokens is not None and mechanism == "OAUTHBEARER":
        from kprod.broker.sasl.oauthbearer import OauthBearerVerifier  # noqa: PLC0415 - needs an extra

        return OauthBearerVerifier(identities.bearer_tokens)
    return ScramVerifier(identities.credentials, mechanism, identities.delegation_tokens)
