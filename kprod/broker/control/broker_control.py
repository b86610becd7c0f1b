"""Controls single brokers: stop, start, disconnect, throttle.

Thread-safety: as `EmbeddedCluster`.
"""

from kprod.broker.cluster_runner import ClusterRunner


class BrokerControl:
    """Methods of an `EmbeddedCluster` about its brokers."""

    __slots__ = ()

    _kprod: ClusterRunner

    def stop_broker(self, broker: int) -> None:
        """Close a broker's connections and reject new ones; its leaderships move."""

        def stop() -> None:
            self._kprod.engine.brokers[broker].stop()
            self._kprod.engine.state.broker_stopped(broker)

        self._kprod.call(stop)

    def start_broker(self, broker: int) -> None:
        """Start a stopped broker again on the same port; its replicas catch up."""

        def start() -> None:
            self._kprod.engine.brokers[broker].start()
            self._kprod.engine.state.broker_started(broker)

        self._kprod.call(start)

    def disconnect_clients(self, broker: int) -> None:
        """Close all connections of a broker, which continues to run."""
        self._kprod.call(lambda: self._kprod.engine.brokers[broker].disconnect_all("on demand"))

    def throttle(self, api: int, throttle_time_ms: int) -> None:
        """Throttle clients of an API for a time; 0 ends it."""
        self._kprod.call(lambda: self._kprod.engine.throttles.update({int(api): throttle_time_ms}))
