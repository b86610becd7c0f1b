"""A process in which every `.py` is interpreted, and which modules the direct path runs there.

Run it with "closed" to see that the path does not open here, with "open" to have it opened all the
same and to print, one a line, the modules of kprod whose functions ran on the calling thread.
"""

import importlib.machinery
import sys
from types import FrameType
from typing import Any

RECORDS = 30  # traced, of each kind
KINDS: dict[str, dict[str, Any]] = {
    "a partition": {"partition": 1},
    "the sticky partition": {},
    "a key": {"key": b"k"},
    "headers and a time": {"headers": {"h": b"1"}, "timestamp_ms": 7},
    "another topic": {"topic": "others"},
}


def interpret_sources() -> None:
    """Prefer a `.py` to the extension module that was made of it; a `.pyx` stays compiled."""
    machinery = importlib.machinery
    sources = (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES)
    extensions = (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES)
    sys.path_hooks.insert(0, machinery.FileFinder.path_hook(sources, extensions))
    sys.path_importer_cache.clear()


def _modules_run(producer: Any, record: dict[str, Any]) -> set[str]:
    """The modules whose functions one record runs, from `send` to its outcome."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            seen.add(frame.f_globals.get("__name__", ""))

    sys.setprofile(note)
    try:
        producer.send(**record).result(30)
    finally:
        sys.setprofile(None)
    return {name for name in seen if name.startswith("kprod.")}


def _modules_run_by(producer: Any, record: dict[str, Any]) -> set[str]:
    """As `_modules_run`, of many records that take the direct path."""
    seen: set[str] = set()
    for _ in range(RECORDS):
        producer.send(**record).result(30)  # the first of a kind opens its topic
        while not producer._kprod.path.direct_path.is_awaited:
            producer.send(**record).result(30)
        seen |= _modules_run(producer, record)
    return seen


def main(*, admits_interpreted: bool) -> None:
    """Run as the module says."""
    interpret_sources()
    # Only now, or they would be loaded as extension modules.
    import kprod  # noqa: PLC0415
    from kprod.broker import BrokerSecurity, EmbeddedCluster  # noqa: PLC0415
    from kprod.producer.wiring import Environment  # noqa: PLC0415

    seen: set[str] = set()
    for protocol in ("PLAINTEXT", "SSL"):
        security = BrokerSecurity(protocol=protocol)
        with (
            EmbeddedCluster(1, {"orders": 2, "others": 1}, security=security) as cluster,
            kprod.Producer(
                cluster.client_settings(),
                linger_ms=0,
                environment=Environment(admits_interpreted=admits_interpreted),
            ) as producer,
        ):
            assert (producer._kprod.path.direct_path is not None) == admits_interpreted
            for kind in KINDS.values() if admits_interpreted else ():
                seen |= _modules_run_by(producer, {"topic": "orders", "value": b"v", **kind})
            producer.send("orders", b"v").result(30)
    sys.stdout.write("\n".join(sorted(seen)))


if __name__ == "__main__":
    main(admits_interpreted=sys.argv[1] == "open")
