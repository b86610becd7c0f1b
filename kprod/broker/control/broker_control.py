"""What a test may do with single brokers: stop, start, disconnect, throttle.

Thread-safety: as `EmbeddedCluster`.
"""

from kprod.broker.cluster_runner import ClusterRunner


class BrokerControl:
    """Methods of an `EmbeddedCluster` about its brokers."""

    __slots__ = ()

    _kprod: ClusterRunner

    def stop_broker(self, broker: int) -> None:
        """Close a broker's connections and refuse new ones; its leaderships move."""

        def stop() -> None:
            self._kprod.engine.brokers[broker].stop()
            self._kprod.engine.state.broker_stopped(broker)

        self._kprod.call(stop)

    def start_broker(self, broker: int) -> None:
        """Let a stopped broker run again, on the same port; it catches up and joins."""

        def start() -> None:
            self._kprod.engine.brokers[broker].start()
            self._kprod.engine.state.broker_started(broker)

        self._kprod.call(start)

    def disconnect_clients(self, broker: int) -> None:
        """Close every connection of a broker; it continues running."""
        self._kprod.call(lambda: self._kprod.engine.brokers[broker].disconnect_all("on demand"))

    def throttle(self, api: int, throttle_time_ms: int) -> None:
        """Tell clients of an API to wait, and take nothing from them meanwhile; 0 ends it."""
        self._kprod.call(lambda: self._kprod.engine.throttles.update({int(api): throttle_time_ms}))
