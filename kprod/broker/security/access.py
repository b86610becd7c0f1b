"""The rights of the client that sent a request.

Thread-safety: the broker's thread.
"""

from kprod.broker.rejection import Rejected
from kprod.broker.security.acls import CLUSTER_NAME, DENIALS, EVERYTHING, Authorizer
from kprod.broker.security.session import ANONYMOUS


class Access:
    """A user, with the cluster's access rules.

    Attributes:
        user: The client's principal.
    """

    __slots__ = ("_authorizer", "user")

    def __init__(self, authorizer: Authorizer, user: str) -> None:
        """Create the rights of a user."""
        self._authorizer = authorizer
        self.user: str = user

    def may(self, operation: str, resource: str, name: str = CLUSTER_NAME) -> bool:
        """Whether an operation is allowed.

        Args:
            operation: As `Acl.operation`.
            resource: As `Acl.resource`.
            name: Name of the resource.

        Returns:
            True if it is allowed.
        """
        return self._authorizer.allows(self.user, operation, resource, name)

    def may_any(self, operation: str, resource: str) -> bool:
        """Whether an operation is allowed on at least one resource of a kind."""
        return self._authorizer.allows_any(self.user, operation, resource)

    def check(self, operation: str, resource: str, name: str = CLUSTER_NAME) -> None:
        """Raise if an operation is not allowed.

        Args:
            operation: As `Acl.operation`.
            resource: As `Acl.resource`.
            name: Name of the resource.

        Raises:
            Rejected: It is not allowed; the error code is that of the resource kind.
        """
        if not self.may(operation, resource, name):
            raise Rejected(DENIALS[resource])


UNLIMITED = Access(EVERYTHING, ANONYMOUS)
