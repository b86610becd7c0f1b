"""A process in which every `.py` is interpreted, and which modules the direct read runs there.

Run it with "closed" to see that the path does not open here, with "open" to have it opened all the
same and to print, one a line, the modules of kprod whose functions ran on the polling thread.
"""

import sys
import threading
from types import FrameType
from typing import Any

from tests.producer.direct_path.interpreted import interpret_sources

RECORDS = 30  # traced


def _modules_run(wait: Any) -> set[str]:
    """The modules whose functions one wait runs."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            seen.add(frame.f_globals.get("__name__", ""))

    sys.setprofile(note)
    try:
        wait()
    finally:
        sys.setprofile(None)
    return {name for name in seen if name.startswith("kprod.")}


def _modules_run_by(consumer: Any, direct: Any, send: Any) -> set[str]:
    """As `_modules_run`, of many records that are waited for."""
    seen: set[str] = set()
    for number in range(RECORDS):
        assert not consumer.poll(0)  # frees the last record's block, as a `poll` that waits does
        if number % 2:
            _forbid_repeating(direct)
        sending = threading.Thread(target=_send_when_waited_for, args=(direct, send))
        sending.start()
        records: list[Any] = []
        while not records:
            seen |= _modules_run(lambda: direct.wait(bool, None))
            records = consumer.poll(0)
        sending.join()
    return seen


def _forbid_repeating(direct: Any) -> None:
    """Have the response processed in the general way, whatever it is."""
    for connection in direct._client.connections.by_node_id.values():
        in_flight = connection.requests.newest
        if in_flight is not None and hasattr(in_flight.request, "repeated"):
            in_flight.request.repeated = None


def _send_when_waited_for(direct: Any, send: Any) -> None:
    pause = threading.Event()
    while not direct._is_waiting:
        pause.wait(0.001)
    send("t", b"v")


def main(*, admits_interpreted: bool) -> None:
    """Run as the module says."""
    interpret_sources()
    # Only now, or they would be loaded as extension modules.
    import kprod  # noqa: PLC0415
    from kprod.broker import EmbeddedCluster  # noqa: PLC0415
    from kprod.consumer.consumer_face import engine_of  # noqa: PLC0415
    from kprod.consumer.consumer_wiring import ConsumerEnvironment  # noqa: PLC0415

    seen: set[str] = set()
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        kprod.Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer,
        kprod.Consumer(
            "t",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            environment=ConsumerEnvironment(admits_interpreted=admits_interpreted),
        ) as consumer,
    ):
        direct = engine_of(consumer).parts.direct_read
        assert (direct is not None) == admits_interpreted
        for _ in range(2):
            producer.send("t", b"v")
            assert len(consumer.poll(30)) == 1
        if direct is not None:
            seen = _modules_run_by(consumer, direct, producer.send)
    sys.stdout.write("\n".join(sorted(seen)))


if __name__ == "__main__":
    main(admits_interpreted=sys.argv[1] == "open")
