"""Checks of what clients ask of topics: names, numbers, assignments of brokers.

Thread-safety: pure functions.
Source: Kafka Topic.validate, ReplicationControlManager (4.3).
"""

from kprod.broker.rejection import Rejected
from kprod.protocol.error_table import ErrorCode
from kprod.topic_name import name_fault

# The limit for one topic; the limit for all topics together is a setting.
PARTITIONS_MAX = 100_000
_BROKERS_SHOWN = 10

REQUEST_ADDITIONS_MAX = 10_000
"""Topics and partitions that one request may add, as in Kafka: its MAX_PARTITIONS_PER_BATCH, and
the size of the batch in which its controller writes them down."""

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's own topics, whose records clients may not delete."""


def check_name(name: str) -> None:
    """Check a topic name from the application.

    Args:
        name: Name as the client sent it.

    Raises:
        Rejected: With INVALID_TOPIC_EXCEPTION and the reason.
    """
    fault = name_fault(name)
    if fault is not None:
        raise Rejected(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)


def check_additions(addition_count: int) -> None:
    """Check how many topics and partitions one request adds.

    Args:
        addition_count: Both together.

    Raises:
        Rejected: With POLICY_VIOLATION, as Kafka does.
    """
    if addition_count > REQUEST_ADDITIONS_MAX:
        raise Rejected(
            ErrorCode.POLICY_VIOLATION,
            f"topics and partitions that the request adds: {addition_count}; "
            f"{REQUEST_ADDITIONS_MAX} are allowed in one request",
        )


def check_assignment(
    assignment: list[list[int]], replication_factor: int, node_ids: list[int]
) -> None:
    """Check on which brokers partitions are to be.

    Args:
        assignment: Brokers of each partition.
        replication_factor: Number of replicas of each partition.
        node_ids: All brokers.

    Raises:
        Rejected: With INVALID_REPLICA_ASSIGNMENT.
    """
    for nodes in assignment:
        unknown = sorted(set(nodes).difference(node_ids))
        if len(nodes) != replication_factor or len(set(nodes)) != len(nodes) or unknown:
            raise Rejected(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"an assignment names brokers {nodes[:_BROKERS_SHOWN]}; each partition needs "
                f"{replication_factor} different ones of {node_ids[:_BROKERS_SHOWN]}",
            )
