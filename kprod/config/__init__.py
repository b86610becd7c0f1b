"""Settings: one table, checked once, handed on in slices.

`ProducerConfig.parse` turns what an application wrote (`linger_ms=5`, `{"linger.ms": "5"}`) into
one frozen value or a `ConfigError`. A component never sees the whole of it; it takes the slice
that it uses.

Thread-safety: all values here are immutable.
Source: Kafka's ProducerConfig and CommonClientConfigs (clients 4.3.1) for names, defaults, bounds.
"""

from kprod.config.address import Address
from kprod.config.client_config import ClientConfig
from kprod.config.producer_config import ProducerConfig
from kprod.config.reading import given_settings
from kprod.config.security_config import SecurityConfig
from kprod.config.settings_slices import (
    AccumulatorSettings,
    CompressionSettings,
    FetchSettings,
    MetadataSettings,
    NetworkSettings,
    PartitionerSettings,
    SenderSettings,
)
from kprod.secret import Secret

__all__ = [
    "AccumulatorSettings",
    "Address",
    "ClientConfig",
    "CompressionSettings",
    "FetchSettings",
    "MetadataSettings",
    "NetworkSettings",
    "PartitionerSettings",
    "ProducerConfig",
    "Secret",
    "SecurityConfig",
    "SenderSettings",
    "given_settings",
]
