"""`kprod broker`: a cluster in miniature on loopback, until interrupted.

Thread-safety: the main thread; the cluster has one of its own.
"""

import threading
from collections.abc import Mapping

import click

from kprod.broker import EmbeddedCluster, EmbeddedConfig


def run_broker(*, port: int, brokers: int, topics: Mapping[str, int]) -> None:
    """Run a cluster until the process is interrupted.

    Args:
        port: Of the first broker, the others follow; 0 takes free ones.
        brokers: How many, 1 to 100.
        topics: Partitions by topic, made at once.

    Raises:
        ConfigError: A number is out of bounds.
        OSError: A port is taken.
    """
    with EmbeddedCluster(brokers, topics, config=EmbeddedConfig(port=port)) as cluster:
        # The address alone on standard output, for scripts.
        click.echo(cluster.bootstrap_servers)
        click.echo("in memory, on loopback, for tests; Ctrl-C ends it", err=True)
        threading.Event().wait()
