"""Checks the arguments of `EmbeddedCluster`.

Thread-safety: pure functions.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from kprod.broker.config import EmbeddedConfig
from kprod.broker.log.disk import Disk
from kprod.broker.log.durable_logs import Storage
from kprod.broker.log.syncer import InlineSyncer, ThreadSyncer
from kprod.broker.log.system_disk import SystemDisk
from kprod.errors import ConfigError
from kprod.model import PORT_MAX

BROKERS_MAX = 100


def node_ids(brokers: int | Sequence[int]) -> list[int]:
    """Return the brokers' ids.

    Args:
        brokers: Number of brokers, or their ids.

    Returns:
        Distinct ids.

    Raises:
        ConfigError: The number or an id is out of bounds, or an id is repeated.
    """
    ids = range(brokers) if isinstance(brokers, int) else brokers
    if not 1 <= len(ids) <= BROKERS_MAX:
        raise ConfigError(f"brokers={brokers!r} is not a number of brokers from 1 to {BROKERS_MAX}")
    if len(set(ids)) != len(ids) or not all(0 <= it < 2**31 for it in ids):
        raise ConfigError(f"brokers={brokers!r} are not different ids from 0 to {2**31 - 1}")
    return list(ids)


def check_types(brokers: object, topics: object, config: object) -> None:
    """Reject arguments as other libraries take them; the error shows the intended call.

    Args:
        brokers: The argument of `EmbeddedCluster`.
        topics: The argument of `EmbeddedCluster`.
        config: The argument of `EmbeddedCluster`.

    Raises:
        TypeError: An argument has the wrong type.
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
            f"config must be an EmbeddedConfig, got {type(config).__name__}; settings can be given"
            " by name: EmbeddedCluster(default_partitions=3)"
        )


def check_ports(config: EmbeddedConfig, broker_count: int) -> None:
    """Check that each broker gets a valid port number.

    Args:
        config: Settings with the first ports.
        broker_count: Number of brokers.

    Raises:
        ConfigError: The last port would be above 65,535.
    """
    if config.racks and len(config.racks) != broker_count:
        raise ConfigError(
            f"racks names {len(config.racks)}, and the number of brokers is {broker_count}; give"
            " one for each"
        )
    for name in ("port", "advertised_port"):
        first = getattr(config, name)
        if first and first + broker_count - 1 > PORT_MAX:
            raise ConfigError(
                f"{name}={first} leaves no port for the last broker, since ports follow each other;"
                f" give {PORT_MAX - broker_count + 1} at most"
            )


def storage_of(
    one: str | os.PathLike[str] | None,
    several: Sequence[str | os.PathLike[str]],
    disk: Disk | None,
    *,
    is_repeatable: bool,
    adopts: bool = False,
) -> Storage | None:
    """Choose where the logs are stored.

    Args:
        one: The argument `data_dir`.
        several: The argument `data_dirs`.
        disk: Holds the directories; the operating system's by default.
        is_repeatable: Whether all must happen in the caller's thread.
        adopts: The argument `adopt`.

    Returns:
        The disk and the directories; None to keep the logs in memory.

    Raises:
        ConfigError: Both arguments are given, one directory is given twice, or `adopt` is given
            without a directory.
        TypeError: `several` is a single path, not a sequence of paths.
    """
    if isinstance(several, str | os.PathLike):
        raise TypeError(f"data_dirs must be a sequence of paths; write data_dir={several!r}")
    if one is not None and several:
        raise ConfigError("data_dir and data_dirs are both given; give one of them")
    paths = tuple(str(Path(it).absolute()) for it in ((one,) if one is not None else several))
    if len(set(paths)) != len(paths):
        raise ConfigError(f"data_dirs={list(paths)} has a directory twice")
    if not paths:
        if adopts:
            raise ConfigError("adopt=True needs data_dir or data_dirs, the directories to adopt")
        return None
    happens_at_once = disk is not None or is_repeatable
    syncer = InlineSyncer() if happens_at_once else ThreadSyncer()
    return Storage(disk or SystemDisk(), paths, syncer, adopts)
