"""Write `docs/metrics.md` from the table of metrics.

Run by `make docs`; a test compares the page with what this module returns.
"""

import logging
from pathlib import Path

from kprod.broker.broker_metrics import LOG, ROWS
from kprod.consumer import consumer_metrics
from kprod.metrics.export import FAMILIES, Family
from kprod.metrics.metric_windows import WINDOW_MS
from kprod.metrics.state_log import Event
from kprod.metrics.table import Group

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"

_FIRST_S, _LAST_S = WINDOW_MS // 1_000, 2 * WINDOW_MS // 1_000

_HEAD = f"""\
# Metrics

Generated from the table in `kprod/metrics` by `make docs`; do not edit.

`producer.metrics()` returns what a producer has counted of itself, under the names and in the
groups of Kafka's own producer, as nested dictionaries:

```python
from kprod import Producer

producer = Producer(bootstrap_servers="localhost:9092", client_id="clicks")
producer.send("orders", b"order")
producer.flush()

metrics = producer.metrics()
print(metrics["producer-metrics"]["record-send-total"])
print(metrics["producer-topic-metrics.orders"]["record-error-total"])
```

<!-- printed -->
```text
1.0
0.0
```

Counting is always on: it is done per batch, per request and per turn of the sender, never per
record (`benchmarks/metrics_cost.py` measures it). Totals grow from the start of the producer to its
end. Averages, maxima, percentiles and rates are over the last {_FIRST_S} to {_LAST_S} s, or since
the start if that is shorter. An average, maximum or percentile of nothing is NaN. Percentiles of
latencies are at most an eighth above the true ones; Kafka's own producer has none. Reading is safe
from any thread, and after `close`.

Where the values differ from Kafka's own: compression rates are of bytes, not averages of batches'
rates; `record-send-total` counts each attempt, as there; a batch that fails because the
producer is closed counts as an error; `record-size-max` is missing, since it would be counted per
record.

## Prometheus

`pip install 'kprod[prometheus]'`, then:

```python
import prometheus_client
from kprod.metrics.prometheus import ProducerCollector

prometheus_client.REGISTRY.register(ProducerCollector(producer))
```

<!-- not run: it takes a port -->
```python
prometheus_client.start_http_server(8000)
```

One collector serves all of a process's producers (`ProducerCollector(one, two)`, `add`, `remove`).
Names begin with `kafka_producer_`, `kafka_producer_topic_` or `kafka_producer_node_`, and have `_`
for `-`; labels are `client_id`, and `topic` or `node_id`. Totals are counters, the rest gauges.

## OpenTelemetry

`pip install 'kprod[opentelemetry]'`, then:

```python
from kprod.metrics.opentelemetry import observe

observe(producer)  # with the global meter provider, or meter_provider=...
```

Names begin with `kafka.producer.`, `kafka.producer.topic.` or `kafka.producer.node.`; attributes
are `client-id`, and `topic` or `node-id`. Totals are observable counters, the rest gauges.

## Log lines

The logger `kprod.state` has a line for each change of state, and none for a record. A line begins
with the client id. For formatters that write JSON the log record has the same as attributes:
`kprod_client`, `kprod_event`, and `kprod_fields`, a dictionary.

```python
import logging
import sys

logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO, stream=sys.stdout)
producer.close()
```

<!-- printed -->
```text
INFO clicks closing
```

| event | line | level | when |
|---|---|---|---|
"""

_GROUPS = {
    Group.PRODUCER: "Of the producer: `producer-metrics`",
    Group.TOPIC: "Of a topic: `producer-topic-metrics.<topic>`",
    Group.NODE: "Of a broker: `producer-node-metrics.node-<id>`",
}

_CONSUMER = """
## Of a consumer

`consumer.metrics()` returns the counters of one consumer, by the names of Kafka's own. Averages
and maxima are since its start. A partition's group exists once a response has told its log's end.

```python
from kprod import Consumer

with Consumer("orders", bootstrap_servers="localhost:9092") as consumer:
    records = consumer.poll(1)
    metrics = consumer.metrics()
    assert metrics["consumer-fetch-manager-metrics"]["records-consumed-total"] == len(records)
```

| group | name | unit | meaning |
|---|---|---|---|
"""

_BROKER = """
## Of an embedded cluster

`EmbeddedCluster.metrics()` returns what its brokers have counted, by the names of Kafka's MBeans
in `kafka.log`. Values are read when they are asked for; nothing is counted for an append.

```python
from kprod.broker import EmbeddedCluster

with EmbeddedCluster(1, {"orders": 1}) as cluster:
    metrics = cluster.metrics()
    assert metrics["LogManager"]["OfflineLogDirectoryCount"] == 0
    assert metrics["Log.orders-0"]["LogEndOffset"] == 0
```

| group | name | unit | meaning |
|---|---|---|---|
"""


def page() -> str:
    """Return the whole page."""
    parts = [_HEAD]
    parts += [
        f"| `{event.name.lower()}` | {event.text} | {logging.getLevelName(event.level)} |"
        f" {event.meaning} |\n"
        for event in Event
    ]
    for group, heading in _GROUPS.items():
        parts.append(f"\n## {heading}\n\n| name | kind | unit | meaning |\n|---|---|---|---|\n")
        parts += [_line(family) for family in FAMILIES if family.group is group]
    parts.append(_CONSUMER)
    parts += [
        f"| `{consumer_metrics.GROUP}{'.<topic>-<partition>' if row.of_partition else ''}` |"
        f" `{row.name}` | {row.unit} | {row.meaning} |\n"
        for row in consumer_metrics.ROWS
    ]
    parts += [
        f"| `{consumer_metrics.COORDINATOR_GROUP}` | `{row.name}` | {row.unit} | {row.meaning} |\n"
        for row in consumer_metrics.COORDINATOR_ROWS
    ]
    parts.append(_BROKER)
    parts += [
        f"| `{f'{LOG}.<topic>-<partition>' if row.group == LOG else row.group}` | `{row.name}` |"
        f" {row.unit} | {row.meaning} |\n"
        for row in ROWS
    ]
    return "".join(parts)


def _line(family: Family) -> str:
    return f"| `{family.name}` | {family.kind.value} | {family.unit} | {family.meaning} |\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
