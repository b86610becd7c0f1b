"""An application's filter of the addresses that a cluster advertises."""

import sys
from collections.abc import Callable, Generator
from typing import Any

import pytest

from kprod import Consumer, Producer
from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.config import ProducerConfig
from kprod.errors import DeliveryTimeout, MetadataTimeout
from kprod.network.admin_client import AdminClient, Question
from kprod.protocol.api import ApiKey

LIMITS: dict[str, Any] = {
    "request_timeout_ms": 500,
    "delivery_timeout_ms": 1_000,
    "max_block_ms": 1_000,
    "linger_ms": 0,
}


def served() -> EmbeddedCluster:
    """A broker that advertises a name."""
    return EmbeddedCluster(1, {"orders": 1}, config=EmbeddedConfig(advertised_host="localhost"))


def test_advertised_addresses_are_asked_for() -> None:
    """As they are advertised; the bootstrap addresses are the application's own."""
    asked: list[tuple[str, int]] = []

    def is_allowed(host: str, port: int) -> bool:
        asked.append((host, port))
        return True

    with served() as cluster:
        port = int(cluster.bootstrap_servers.split(":")[1])
        settings: dict[str, Any] = {"address_filter": is_allowed}
        settings["bootstrap_servers"] = f"127.0.0.1:{port}"
        with Producer(settings) as producer:
            assert producer.send("orders", b"one").result(30).offset == 0
        assert set(asked) == {("localhost", port)}
        asked.clear()
        with Consumer(settings=settings, auto_offset_reset="earliest") as consumer:
            consumer.assign([("orders", 0)])
            assert next(iter(consumer)).value == b"one"
        assert set(asked) == {("localhost", port)}


def failing(host: str, port: int) -> bool:
    """A filter with a fault."""
    raise LookupError(f"{host} {port}")


def leaving(_host: str, _port: int) -> bool:
    """A filter that would end the program."""
    sys.exit("the filter's own")


class Later:
    """The result of a filter that needs an event loop; such an object is true."""

    def __init__(self, _host: str, _port: int) -> None: ...

    def __await__(self) -> Generator[None, None, bool]:
        """Return false to an event loop, which nobody runs."""
        yield
        return False


def interrupted(_host: str, _port: int) -> bool:
    """A filter in whose time Ctrl-C comes."""
    raise KeyboardInterrupt


def test_ctrl_c_leaves_a_client_of_the_callers_thread() -> None:
    """The filter's other errors exclude the address."""
    with served() as cluster:
        address = f"127.0.0.1:{cluster.bootstrap_servers.split(':')[1]}"
        settings: dict[str, Any] = {"bootstrap_servers": address, "address_filter": interrupted}
        config = ProducerConfig.parse(settings)
        question = Question(ApiKey.LIST_GROUPS, {}, (0, 0))
        with AdminClient(config, timeout_ms=10_000) as admin, pytest.raises(KeyboardInterrupt):
            admin.ask(question, node_id=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_allowed", "text"),
    [
        (lambda _host, _port: False, r"localhost:\d+, which address_filter does not allow"),
        (lambda _host, _port: None, r"localhost:\d+, which address_filter does not allow"),
        (failing, r"address_filter raised LookupError: .*localhost \d+.* for localhost:\d+"),
        (lambda: True, "address_filter raised TypeError: .* for localhost"),
        (leaving, "address_filter raised SystemExit: the filter's own for localhost"),
        (Later, r"address_filter must return its result for localhost:\d+, not an awaitable"),
    ],
)
def test_an_address_that_is_not_allowed(is_allowed: Callable[..., object], text: str) -> None:
    """No connection is made, and the error has the reason, of the record or of its topic."""
    with served() as cluster:
        address = f"127.0.0.1:{cluster.bootstrap_servers.split(':')[1]}"
        settings: dict[str, Any] = {"bootstrap_servers": address, "address_filter": is_allowed}
        with Producer(settings, **LIMITS) as producer:
            with pytest.raises((DeliveryTimeout, MetadataTimeout), match=text):
                producer.send("orders", b"one").result(30)
            assert producer.metrics()["producer-metrics"]["connection-creation-total"] == 1
