"""The credentials that logins are checked against: users, passwords, and tokens.

Thread-safety: the broker's thread.
"""

from typing import TYPE_CHECKING

from kprod.broker.sasl.credentials import Credentials
from kprod.broker.sasl.delegation_tokens import DelegationTokens
from kprod.broker.security.broker_security import BrokerSecurity
from kprod.clock import Clock

if TYPE_CHECKING:
    from kprod.broker.sasl.bearer_tokens import BearerTokens


class Identities:
    """Users and tokens that may log in at a cluster.

    Attributes:
        credentials: Users with their passwords.
        delegation_tokens: Delegation tokens, created by requests.
        bearer_tokens: Verifies OAUTHBEARER tokens; None if the mechanism is not served.
    """

    __slots__ = ("bearer_tokens", "credentials", "delegation_tokens")

    def __init__(self, security: BrokerSecurity, clock: Clock) -> None:
        """Set the users.

        Args:
            security: The cluster's security settings.
            clock: Clock for the expiry of tokens.
        """
        self.credentials: Credentials = Credentials(security.users)
        self.delegation_tokens: DelegationTokens = DelegationTokens(clock)
        self.bearer_tokens: BearerTokens | None = _bearer_tokens(security, clock)


def _bearer_tokens(security: BrokerSecurity, clock: Clock) -> "BearerTokens | None":
    if "OAUTHBEARER" not in security.mechanisms or not security.uses_sasl:
        return None
    from kprod.broker.sasl.bearer_tokens import BearerTokens  # noqa: PLC0415 - needs an extra

    return BearerTokens(security, clock)
