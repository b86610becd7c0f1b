"""One file per API, named as the API; each says what it does and what it leaves out."""

from kprod.broker.handlers.create_topics import CreateTopicsHandler
from kprod.broker.handlers.fetch import FetchHandler
from kprod.broker.handlers.find_coordinator import FindCoordinatorHandler
from kprod.broker.handlers.handler import Handler
from kprod.broker.handlers.init_producer_id import InitProducerIdHandler
from kprod.broker.handlers.list_offsets import ListOffsetsHandler
from kprod.broker.handlers.metadata import MetadataHandler
from kprod.broker.handlers.produce import ProduceHandler

HANDLERS: tuple[type[Handler], ...] = (
    ProduceHandler,
    FetchHandler,
    ListOffsetsHandler,
    MetadataHandler,
    FindCoordinatorHandler,
    CreateTopicsHandler,
    InitProducerIdHandler,
)
"""Every API that is served but ApiVersions, which tells of them all."""
