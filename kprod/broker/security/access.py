"""What the client behind one request may do.

Thread-safety: the broker's thread.
"""

from kprod.broker.rejection import Refused
from kprod.broker.security.acls import CLUSTER_NAME, DENIALS, EVERYTHING, Authorizer
from kprod.broker.security.session import ANONYMOUS


class Access:
    """A user, and the rules of the cluster.

    Attributes:
        user: Principal of the client.
    """

    __slots__ = ("_authorizer", "user")

    def __init__(self, authorizer: Authorizer, user: str) -> None:
        """Speak for a user."""
        self._authorizer = authorizer
        self.user: str = user

    def may(self, operation: str, resource: str, name: str = CLUSTER_NAME) -> bool:
        """Whether the user may do something.

        Args:
            operation: As `Acl.operation`.
            resource: As `Acl.resource`.
            name: Of the resource.

        Returns:
            Whether it is allowed.
        """
        return self._authorizer.allows(self.user, operation, resource, name)

    def may_any(self, operation: str, resource: str) -> bool:
        """Whether the user may do something to at least one thing of a kind."""
        return self._authorizer.allows_any(self.user, operation, resource)

    def check(self, operation: str, resource: str, name: str = CLUSTER_NAME) -> None:
        """Refuse what the user may not do.

        Args:
            operation: As `Acl.operation`.
            resource: As `Acl.resource`.
            name: Of the resource.

        Raises:
            Refused: It is not allowed; the code is the resource's.
        """
        if not self.may(operation, resource, name):
            raise Refused(DENIALS[resource])


UNLIMITED = Access(EVERYTHING, ANONYMOUS)
