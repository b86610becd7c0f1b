"""Access control lists as Kafka's, to test how a client behaves without a right.

Rules, as of Kafka's StandardAuthorizer.
    Super users may do everything.
    A denial that matches wins over whatever is allowed; what nothing allows is denied.
    A user that may READ, WRITE, DELETE or ALTER something may DESCRIBE it; ALTER_CONFIGS has
    DESCRIBE_CONFIGS in it. ALL is every operation.
    A literal name `*` is every name; a user `*` is every user.

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
        user: Whom it is for; `*` for every user.
        operation: One of `OPERATIONS`.
        resource: `topic`, `group`, `cluster`, `transactional_id` or `user`.
        name: Of the resource; `*` for every one. Of no meaning for the cluster.
        pattern: `literal`, or `prefixed` for every name that begins so.
        permission: `allow` or `deny`.
    """

    user: str
    operation: str
    resource: str = "topic"
    name: str = _ANY
    pattern: str = "literal"
    permission: str = "allow"

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            ConfigError: One is none of those that there are.
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
        """Whether it is for a user and a thing."""
        if self.user not in {_ANY, user} or self.resource != resource:
            return False
        if resource == "cluster" or self.name == name:
            return True
        if self.pattern == "prefixed":
            return name.startswith(self.name)
        return self.name == _ANY

    def allows(self, operation: str) -> bool:
        """Whether it allows an operation on what it is about."""
        if self.permission != "allow":
            return False
        return self.operation in {"ALL", operation} or self.operation in _IMPLIED.get(operation, ())

    def denies(self, operation: str) -> bool:
        """Whether it forbids an operation on what it is about."""
        return self.permission == "deny" and self.operation in {"ALL", operation}


class Authorizer:
    """Decides by the rules of one cluster."""

    __slots__ = ("_acls", "_super_users")

    def __init__(self, acls: Sequence[Acl] | None, super_users: Sequence[str] = ()) -> None:
        """Take the rules.

        Args:
            acls: The rules; None for a cluster where everything is allowed.
            super_users: Users that may do everything.
        """
        self._acls = None if acls is None else tuple(acls)
        self._super_users = frozenset(super_users)

    def allows(self, user: str, operation: str, resource: str, name: str) -> bool:
        """Decide.

        Args:
            user: Principal of the client.
            operation: One of `OPERATIONS`.
            resource: A key of `DENIALS`.
            name: Of the resource.

        Returns:
            Whether it is allowed.
        """
        if self._acls is None or user in self._super_users:
            return True
        found = [acl for acl in self._acls if acl.is_about(user, resource, name)]
        if any(acl.denies(operation) for acl in found):
            return False
        return any(acl.allows(operation) for acl in found)

    def allows_any(self, user: str, operation: str, resource: str) -> bool:
        """Whether a user may do something to at least one thing of a kind.

        Args:
            user: Principal of the client.
            operation: One of `OPERATIONS`.
            resource: A key of `DENIALS`.

        Returns:
            Whether a rule allows it and no denial of every name or of a shorter beginning forbids.
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
