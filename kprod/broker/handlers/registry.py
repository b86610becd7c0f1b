"""The handlers of all served APIs, in the order of API keys."""

from kprod.broker.cluster_state import ClusterState
from kprod.broker.handlers.alter_configs_handler import AlterConfigsHandler
from kprod.broker.handlers.api_versions_handler import ApiVersionsHandler
from kprod.broker.handlers.create_partitions_handler import CreatePartitionsHandler
from kprod.broker.handlers.create_topics_handler import CreateTopicsHandler
from kprod.broker.handlers.delete_groups_handler import DeleteGroupsHandler
from kprod.broker.handlers.delete_records_handler import DeleteRecordsHandler
from kprod.broker.handlers.delete_topics_handler import DeleteTopicsHandler
from kprod.broker.handlers.describe_cluster_handler import DescribeClusterHandler
from kprod.broker.handlers.describe_configs_handler import DescribeConfigsHandler
from kprod.broker.handlers.describe_groups_handler import DescribeGroupsHandler
from kprod.broker.handlers.describe_log_dirs_handler import DescribeLogDirsHandler
from kprod.broker.handlers.fetch_handler import FetchHandler
from kprod.broker.handlers.find_coordinator_handler import FindCoordinatorHandler
from kprod.broker.handlers.heartbeat_handler import HeartbeatHandler
from kprod.broker.handlers.incremental_alter_configs_handler import IncrementalAlterConfigsHandler
from kprod.broker.handlers.init_producer_id_handler import InitProducerIdHandler
from kprod.broker.handlers.join_group_handler import JoinGroupHandler
from kprod.broker.handlers.leave_group_handler import LeaveGroupHandler
from kprod.broker.handlers.list_groups_handler import ListGroupsHandler
from kprod.broker.handlers.list_offsets_handler import ListOffsetsHandler
from kprod.broker.handlers.metadata_handler import MetadataHandler
from kprod.broker.handlers.offset_commit_handler import OffsetCommitHandler
from kprod.broker.handlers.offset_delete_handler import OffsetDeleteHandler
from kprod.broker.handlers.offset_fetch_handler import OffsetFetchHandler
from kprod.broker.handlers.offset_for_leader_epoch_handler import OffsetForLeaderEpochHandler
from kprod.broker.handlers.produce_handler import ProduceHandler
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.handlers.sasl_authenticate_handler import SaslAuthenticateHandler
from kprod.broker.handlers.sasl_handshake_handler import SaslHandshakeHandler
from kprod.broker.handlers.sync_group_handler import SyncGroupHandler

HANDLERS: tuple[type[Handler], ...] = (
    ProduceHandler,
    FetchHandler,
    ListOffsetsHandler,
    MetadataHandler,
    OffsetCommitHandler,
    OffsetFetchHandler,
    FindCoordinatorHandler,
    JoinGroupHandler,
    HeartbeatHandler,
    LeaveGroupHandler,
    SyncGroupHandler,
    DescribeGroupsHandler,
    ListGroupsHandler,
    SaslHandshakeHandler,
    ApiVersionsHandler,
    CreateTopicsHandler,
    DeleteTopicsHandler,
    DeleteRecordsHandler,
    InitProducerIdHandler,
    OffsetForLeaderEpochHandler,
    DescribeConfigsHandler,
    AlterConfigsHandler,
    DescribeLogDirsHandler,
    SaslAuthenticateHandler,
    CreatePartitionsHandler,
    DeleteGroupsHandler,
    IncrementalAlterConfigsHandler,
    OffsetDeleteHandler,
    DescribeClusterHandler,
)


def make_handlers(state: ClusterState) -> dict[int, Handler]:
    """Create one handler for each API; ApiVersions gets all of them.

    Args:
        state: The cluster's state.

    Returns:
        The handlers by API key.
    """
    handlers = {int(kind.api_key): kind(state) for kind in HANDLERS}
    for handler in handlers.values():
        if type(handler) is ApiVersionsHandler:  # an abstract class compares slowly otherwise
            handler.learn(handlers.values())
    return handlers
