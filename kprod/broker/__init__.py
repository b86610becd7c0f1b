"""An embedded Kafka broker in this process, for tests, demonstrations and first experiments.

`EmbeddedCluster` runs any number of brokers over TCP on loopback, for any Kafka client. They
validate requests strictly and can inject faults. It is not a production broker.
"""

from kprod.broker.cluster import EmbeddedCluster
from kprod.broker.config import EmbeddedConfig
from kprod.broker.embedded_settings import EmbeddedSettings
from kprod.broker.faults import Fault, FaultControl, FaultKind
from kprod.broker.partition_view import PartitionView
from kprod.broker.rejection import Rejected
from kprod.broker.security.acls import Acl
from kprod.broker.security.broker_security import BrokerSecurity
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

__all__ = [
    "Acl",
    "ApiKey",
    "BrokerSecurity",
    "EmbeddedCluster",
    "EmbeddedConfig",
    "EmbeddedSettings",
    "ErrorCode",
    "Fault",
    "FaultControl",
    "FaultKind",
    "PartitionView",
    "Rejected",
]
