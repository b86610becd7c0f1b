"""Every API that the broker serves, in the order of its number."""

from kprod.broker.handlers.api_versions import ApiVersionsHandler
from kprod.broker.handlers.create_partitions import CreatePartitionsHandler
from kprod.broker.handlers.create_topics import CreateTopicsHandler
from kprod.broker.handlers.delete_topics import DeleteTopicsHandler
from kprod.broker.handlers.describe_cluster import DescribeClusterHandler
from kprod.broker.handlers.describe_configs import DescribeConfigsHandler
from kprod.broker.handlers.fetch import FetchHandler
from kprod.broker.handlers.find_coordinator import FindCoordinatorHandler
from kprod.broker.handlers.handler import Handler
from kprod.broker.handlers.init_producer_id import InitProducerIdHandler
from kprod.broker.handlers.list_offsets import ListOffsetsHandler
from kprod.broker.handlers.metadata import MetadataHandler
from kprod.broker.handlers.produce import ProduceHandler
from kprod.broker.state import ClusterState

HANDLERS: tuple[type[Handler], ...] = (
    ProduceHandler,
    FetchHandler,
    ListOffsetsHandler,
    MetadataHandler,
    FindCoordinatorHandler,
    ApiVersionsHandler,
    CreateTopicsHandler,
    DeleteTopicsHandler,
    InitProducerIdHandler,
    DescribeConfigsHandler,
    CreatePartitionsHandler,
    DescribeClusterHandler,
)


def made_handlers(state: ClusterState) -> dict[int, Handler]:
    """One handler of each kind by API key; ApiVersions knows them all.

    Args:
        state: The cluster that they serve.

    Returns:
        All handlers.
    """
    handlers = {int(kind.api_key): kind(state) for kind in HANDLERS}
    for handler in handlers.values():
        if isinstance(handler, ApiVersionsHandler):
            handler.learn(handlers.values())
    return handlers
