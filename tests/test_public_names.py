"""The names of `import kprod`: exactly these, each documented."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kprod
from kprod.broker import EmbeddedCluster

ROOT = Path(__file__).parents[1]
PUBLIC_MODULES = frozenset(
    """kprod kprod.aio kprod.broker kprod.cli kprod.errors kprod.interfaces kprod.model
    kprod.metrics.opentelemetry kprod.metrics.prometheus kprod.metrics.trace_context
    kprod.protocol.error_table kprod.providers kprod.serialization kprod.spark
    kprod.spark.write_collector""".split()
)
COMPONENTS = {"kprod.compression", "kprod.config", "kprod.timer"}
"""Private, too; `__all__` is what the rest of kprod takes from each."""

OF_DEVELOPERS = {"architecture.md", "developing.md"}
CHECKED_BY_PRIVATE_MEANS = {
    "examples/spark_pipeline.py": {  # what feeds and checks the pipeline
        *("kprod.cli.flights", "kprod.network.topic_admin"),
    }
}

PUBLIC = {
    *(
        "Acks",
        "AsyncConsumer",
        "AsyncProducer",
        "Codec",
        "Interceptor",
        "KprodError",
        "OutgoingRecord",
    ),
    *("Partitioner", "Persistence", "Producer", "ProducerHealth", "ProducerSettings"),
    "RecordFuture",
    *("Consumer", "ConsumerInterceptor", "ConsumerRecord", "ConsumerSettings", "Deserializer"),
    *("OffsetAndTimestamp", "TopicPartition"),
    *("GroupMember", "GroupMetadata", "OffsetAndMetadata"),
    *("PartitionAssignor", "RebalanceListener"),
    *("RecordMetadata", "SendReceipt", "Serializer"),
    *("as_completed", "close_on_sigterm", "errors", "failures_of", "wait"),
}


def test_public_names_are_exactly_these() -> None:
    """A name more is a promise, a name less breaks one."""
    assert set(kprod.__all__) == PUBLIC
    assert len(kprod.__all__) == len(PUBLIC)


def test_every_public_name_is_documented() -> None:
    """Each has a docstring of its own, and so has each of its public methods."""
    undocumented = []
    for name in sorted(PUBLIC):
        subject = getattr(kprod, name)
        members = {name: subject}
        if inspect.isclass(subject):
            members |= {
                f"{name}.{attribute}": member
                for base in subject.__mro__
                if base.__module__.startswith("kprod")
                for attribute, member in vars(base).items()
                if not attribute.startswith("_") and callable(member)
            }
        undocumented += [
            full_name
            for full_name, member in members.items()
            if not (getattr(member, "__doc__", None) or "").strip()
        ]
    assert undocumented == []


def _packages() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((ROOT / "kprod").rglob("__init__.py")):
        yield ".".join(path.parent.relative_to(ROOT).parts), ast.parse(path.read_text("utf-8"))


@pytest.mark.checkout
def test_inner_packages_are_private_by_all() -> None:
    """They promise no name; a public one and a component say which they have."""
    empty: set[str] = set()
    named: set[str] = set()
    for name, module in _packages():
        (promised,) = (
            ast.literal_eval(it.value)
            for it in module.body
            if isinstance(it, ast.Assign) and ast.unparse(it.targets[0]) == "__all__"
        )
        (named if promised else empty).add(name)
    assert len(empty) > 15
    assert named == {name for name in PUBLIC_MODULES if name in empty | named} | COMPONENTS


@pytest.mark.checkout
def test_pages_and_examples_import_what_is_public() -> None:
    """A reader copies these lines."""
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/migrating/*.md")]
    imported = re.compile(r"^ *(?:from|import) (kprod(?:\.\w+)*)", re.MULTILINE)
    found = {}
    for path in [*pages, *ROOT.glob("examples/*.py")]:
        names = set(imported.findall(path.read_text(encoding="utf-8")))
        if path.name not in OF_DEVELOPERS and names - PUBLIC_MODULES:
            found[str(path.relative_to(ROOT))] = names - PUBLIC_MODULES
    assert found == CHECKED_BY_PRIVATE_MEANS


PRODUCER = {"client_id", "close", "flush", "health", "metrics", "purge", "send", "send_arrow"}
PRODUCER |= {"send_many"}
CONSUMER = {
    *("assign", "assignment", "beginning_offsets", "client_id", "close", "end_offsets", "lag"),
    *("metrics", "offsets_for_times", "partitions_for", "pause", "paused", "poll", "position"),
    "poll_arrow",
    *("resume", "seek", "seek_to_beginning", "seek_to_end", "skip", "subscribe", "subscription"),
    *("unsubscribe", "wakeup"),
}
GROUP = {
    *("commit", "commit_async", "committed", "enforce_rebalance", "group_metadata", "progress"),
    "store_offsets",
}
FUTURE = {
    *("add_done_callback", "cancel", "cancelled", "done", "exception", "remove_done_callback"),
    *("result", "to_concurrent"),
}
MEMBERS: dict[type, set[str]] = {
    kprod.Producer: PRODUCER | {"_kprod"},
    kprod.AsyncProducer: PRODUCER | {"_kprod", "send_and_wait", "start"},
    kprod.Consumer: CONSUMER | GROUP | {"_kprod"},
    kprod.AsyncConsumer: ((CONSUMER | GROUP) - {"wakeup"}) | {"_kprod", "start"},
    kprod.RecordFuture: FUTURE,
    kprod.SendReceipt: (FUTURE - {"to_concurrent"})
    | {"_kprod", "delivered", "failed_count", "failures", "record_count", "topic"},
    EmbeddedCluster: {
        *("_kprod", "apply_retention", "batches", "bootstrap_servers", "ca_pem", "call"),
        *("catch_up", "close"),
        *("expire_member", "group", "groups", "move_coordinator", "rebalance"),
        *("client_certificate", "client_settings", "compact", "create_topic", "token"),
        *("delete_topic", "describe", "disconnect_clients", "failures", "faults", "forget_topic"),
        *(
            "kill",
            "loaded",
            "metrics",
            "move_leader",
            "open",
            "records",
            "remember_topic",
            "set_follower_lag",
            "start",
        ),
        *("start_broker", "step", "stop_broker", "throttle", "truncate"),
        *("async_wait_for_records", "wait_for_records"),
    },
}


def _own_names(subject: object) -> set[str]:
    """All that `dir` tells, but for names with two underscores and those of every object."""
    return {name for name in dir(subject) if not (name.startswith("__") and name.endswith("__"))}


@pytest.mark.parametrize("kind", MEMBERS, ids=lambda kind: kind.__name__)
def test_a_class_has_documented_names_and_one_more(kind: type) -> None:
    """The object behind `_kprod` shares no name space with an application's subclass."""
    assert _own_names(kind) == MEMBERS[kind]


def test_live_objects_have_no_names_more() -> None:
    """Nothing is added to an instance, before or after it is used."""
    with EmbeddedCluster(brokers=1, topics={"orders": 1}) as cluster:
        with kprod.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            future = producer.send("orders", b"x")
            receipt = producer.send_many("orders", [b"x"])
            assert producer.client_id
            shared = kprod.AsyncProducer(engine=producer)
            receipt.result(10)
            future.result(10)
        for it in (cluster, producer, shared, future, receipt):
            assert _own_names(it) == MEMBERS[type(it)], it
            assert set(getattr(it, "__dict__", {})) <= {"client_id"}
