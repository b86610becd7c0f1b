"""Controls single brokers: stop, start, disconnect, throttle.

Thread-safety: as `EmbeddedCluster`.
"""

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

    def throttle(self, api: int, throttle_time_ms: int) -> None:
        """Throttle an API: clients are told to wait, and nothing is read from them; 0 ends it."""
        self._kprod.call(lambda: self._kprod.engine.throttles.update({int(api): throttle_time_ms}))
