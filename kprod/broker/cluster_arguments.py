"""What an `EmbeddedCluster` may be made with.

Thread-safety: functions of their arguments.
"""

from collections.abc import Mapping, Sequence

from kprod.broker.config import EmbeddedConfig
from kprod.errors import ConfigError

BROKERS_MAX = 100


def node_ids(brokers: int | Sequence[int]) -> list[int]:
    """Return the brokers' ids.

    Args:
        brokers: How many, or their ids.

    Returns:
        Different ids.

    Raises:
        ConfigError: The number or an id is out of bounds, or an id is there twice.
    """
    ids = range(brokers) if isinstance(brokers, int) else brokers
    if not 1 <= len(ids) <= BROKERS_MAX:
        raise ConfigError(f"brokers={brokers!r} is not a number of brokers from 1 to {BROKERS_MAX}")
    if len(set(ids)) != len(ids) or not all(0 <= it < 2**31 for it in ids):
        raise ConfigError(f"brokers={brokers!r} are not different ids from 0 to {2**31 - 1}")
    return list(ids)


def check_types(brokers: object, topics: object, config: object) -> None:
    """Refuse what other libraries take, with the call that is meant.

    Args:
        brokers: As `EmbeddedCluster` was given it, and so the others.
        topics: As given.
        config: As given.

    Raises:
        TypeError: One is of another type.
    """
    if isinstance(brokers, str) or not isinstance(brokers, int | Sequence):
        raise TypeError(f"brokers must be int or a sequence of ids, got {type(brokers).__name__}")
    if topics is not None and not isinstance(topics, Mapping):
        raise TypeError(
            f"topics must map names to numbers of partitions, got {type(topics).__name__}; write"
            ' topics={"orders": 3}'
        )
    if config is not None and not isinstance(config, EmbeddedConfig):
        raise TypeError(
            f"config must be an EmbeddedConfig, got {type(config).__name__}; write"
            " config=EmbeddedConfig(default_partitions=3), with the settings that you want"
        )
