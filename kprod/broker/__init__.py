"""A real Kafka broker in miniature, in this process: for tests, demonstrations and a first try.

`EmbeddedCluster` runs any number of brokers over TCP on loopback; any Kafka client can talk to
them. It is strict, and it misbehaves on demand. It is no production broker.
"""

from kprod.broker.cluster import EmbeddedCluster
from kprod.broker.config import EmbeddedConfig
from kprod.broker.embedded_settings import EmbeddedSettings
from kprod.broker.faults import Fault, FaultControl, FaultKind
from kprod.broker.partition_view import PartitionView
from kprod.broker.rejection import Refused
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
    "Refused",
]
