"""Controls single brokers: stop, start, disconnect, throttle; and reads the cluster's metrics.

Thread-safety: as `EmbeddedCluster`.
"""

from kprod.broker.broker_metrics import Metrics, read_metrics
from kprod.broker.cluster_runner import ClusterRunner


class BrokerControl:
    """Methods of an `EmbeddedCluster` about its brokers."""

    __slots__ = ()

    _kprod: ClusterRunner

    def stop_broker(self, broker: int) -> None:
        """Stop a broker: its connections close, new ones fail, and other brokers lead instead."""

        def stop() -> None:
            self._kprod.engine.brokers[broker].stop()
            self._kprod.engine.state.broker_stopped(broker)

        self._kprod.call(stop)

    def start_broker(self, broker: int) -> None:
        """Start a stopped broker on the same port; its replicas catch up and rejoin."""

        def start() -> None:
            self._kprod.engine.brokers[broker].start()
            self._kprod.engine.state.broker_started(broker)

        self._kprod.call(start)

    def disconnect_clients(self, broker: int) -> None:
        """Close all connections of a broker, which continues to run."""
        self._kprod.call(lambda: self._kprod.engine.brokers[broker].disconnect_all("on demand"))

    def metrics(self) -> Metrics:
        """Return what the cluster has counted, by Kafka's names.

        Returns:
            Values by name, by group: `metrics()["Log.orders-0"]["Size"]`. `docs/metrics.md` lists
            them all. The time that it takes grows with the number of segments.

        Raises:
            ClosedError: The cluster is closed.
        """
        return self._kprod.call(lambda: read_metrics(self._kprod.engine.state))

    def throttle(self, api: int, throttle_time_ms: int) -> None:
        """Throttle an API: clients are told to wait, and nothing is read from them; 0 ends it."""
        self._kprod.call(lambda: self._kprod.engine.throttles.update({int(api): throttle_time_ms}))
