"""Access control lists like Kafka's, for tests of clients with missing rights.

Rules, as in Kafka's StandardAuthorizer. Super users may do everything. A matching deny rule takes
    precedence; what no rule allows is denied. The right to READ, WRITE, DELETE or ALTER includes
    DESCRIBE; ALTER_CONFIGS includes DESCRIBE_CONFIGS. ALL is every operation. The literal name `*`
    means every name, the user `*` every user.

Thread-safety: immutable.
Source: Kafka's StandardAuthorizerData (4.3), KIP-11, KIP-290.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kprod.errors import ConfigError
from kprod.protocol.error_table import ErrorCode

CLUSTER_NAME = "kafka-cluster"
OPERATIONS = tuple(
    "ALL READ WRITE CREATE DELETE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS"
    " IDEMPOTENT_WRITE CREATE_TOKENS DESCRIBE_TOKENS TWO_PHASE_COMMIT".split()
)
DENIALS = {
    "topic": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "group": ErrorCode.GROUP_AUTHORIZATION_FAILED,
    "cluster": ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    "transactional_id": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    "user": ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
_ANY = "*"
_IMPLIED = {
    "DESCRIBE": frozenset({"READ", "WRITE", "DELETE", "ALTER"}),
    "DESCRIBE_CONFIGS": frozenset({"ALTER_CONFIGS"}),
}


@dataclass(frozen=True, slots=True)
class Acl:
    """One rule.

    Attributes:
        user: The user that the rule applies to; `*` for every user.
        operation: One of `OPERATIONS`.
        resource: `topic`, `group`, `cluster`, `transactional_id` or `user`.
        name: Name of the resource; `*` for every one. Ignored for the cluster.
        pattern: `literal`, or `prefixed` for every name with this prefix.
        permission: `allow` or `deny`.
    """

    user: str
    operation: str
    resource: str = "topic"
    name: str = _ANY
    pattern: str = "literal"
    permission: str = "allow"

    def __post_init__(self) -> None:
        """Check all values.

        Raises:
            ConfigError: A value is not one of the possible ones.
        """
        for name, allowed in (
            ("operation", OPERATIONS),
            ("resource", tuple(DENIALS)),
            ("pattern", ("literal", "prefixed")),
            ("permission", ("allow", "deny")),
        ):
            if getattr(self, name) not in allowed:
                raise ConfigError(
                    f"Acl({name}={getattr(self, name)!r}) is not one of {', '.join(allowed)}"
                )

    def is_about(self, user: str, resource: str, name: str) -> bool:
        """Whether the rule applies to a user and a resource."""
        if self.user not in {_ANY, user} or self.resource != resource:
            return False
        if resource == "cluster" or self.name == name:
            return True
        if self.pattern == "prefixed":
            return name.startswith(self.name)
        return self.name == _ANY

    def allows(self, operation: str) -> bool:
        """Whether the rule allows an operation."""
        if self.permission != "allow":
            return False
        return self.operation in {"ALL", operation} or self.operation in _IMPLIED.get(operation, ())

    def denies(self, operation: str) -> bool:
        """Whether the rule denies an operation."""
        return self.permission == "deny" and self.operation in {"ALL", operation}


class Authorizer:
    """Applies the rules of one cluster."""

    __slots__ = ("_acls", "_super_users")

    def __init__(self, acls: Sequence[Acl] | None, super_users: Sequence[str] = ()) -> None:
        """Set the rules.

        Args:
            acls: The rules; None allows everything.
            super_users: Users that may do everything.
        """
        self._acls = None if acls is None else tuple(acls)
        self._super_users = frozenset(super_users)

    def allows(self, user: str, operation: str, resource: str, name: str) -> bool:
        """Decide.

        Args:
            user: The client's principal.
            operation: One of `OPERATIONS`.
            resource: A key of `DENIALS`.
            name: Name of the resource.

        Returns:
            True if it is allowed.
        """
        if self._acls is None or user in self._super_users:
            return True
        found = [acl for acl in self._acls if acl.is_about(user, resource, name)]
        if any(acl.denies(operation) for acl in found):
            return False
        return any(acl.allows(operation) for acl in found)

    def allows_any(self, user: str, operation: str, resource: str) -> bool:
        """Whether a user may perform an operation on at least one resource of a kind.

        Args:
            user: The client's principal.
            operation: One of `OPERATIONS`.
            resource: A key of `DENIALS`.

        Returns:
            True if a rule allows it and no rule denies every name or a prefix of the allowed one.
        """
        if self._acls is None or user in self._super_users:
            return True
        allowing = (
            acl
            for acl in self._acls
            if acl.user in {_ANY, user} and acl.resource == resource and acl.allows(operation)
        )
        return any(self.allows(user, operation, resource, acl.name) for acl in allowing)


EVERYTHING = Authorizer(None)
