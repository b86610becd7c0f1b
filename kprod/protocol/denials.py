"""Says which right a client lacks, for the error of a broker's denial.

Thread-safety: pure functions.
Source: Kafka's AclOperation and KafkaApis (4.3.1); KIP-11, KIP-679.
"""

from kprod.errors import BrokerError
from kprod.peer_text import peer_text
from kprod.protocol.error_table import ErrorCode, error_for

_RESOURCES = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
}
_INCLUDED = {
    "DESCRIBE": "; READ and WRITE include it",
    "IDEMPOTENT_WRITE": "; WRITE on any topic includes it",
}


def denial_or_error(
    code: int, operation: str, name: str = "", *, principal: str = "", message: str | None = ""
) -> BrokerError:
    """Create the error for an error code; a denial names the right to grant.

    Args:
        code: Any code but 0.
        operation: Kafka's name of the operation that was denied, such as `WRITE`.
        name: Name of the topic, group or transactional id.
        principal: User and mechanism; empty without a login.
        message: The broker's text, for errors that are no denials.

    Returns:
        A new error.
    """
    resource = _RESOURCES.get(code)  # type: ignore[call-overload]  # codes are IntEnum members
    if resource is None:
        return error_for(code, message)
    where = f"the {resource}" if resource == "cluster" else f"{resource} '{peer_text(name)}'"
    who = principal or "this client"
    included = _INCLUDED.get(operation, "")
    return error_for(
        code, f"{who} lacks {operation} on {where}; grant it by an ACL of the cluster{included}"
    )
