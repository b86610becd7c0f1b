"""Write a race's result into the page that shows it, one table for each broker.

Between two marks of the page everything is replaced, so that the figures there are always those of
one race, with its date and its machine.

Thread-safety: one thread, the caller's.
"""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

from report import Report
from report_values import Row, readable

from kprod.perf.machine import facts_line, machine_facts

BEGIN, END = "<!-- race: begin -->", "<!-- race: end -->"
HEADING = "| | records/s | ratio | CPU us/record | ratio | peak MiB | of the limit |"
RULE = "|---|---|---|---|---|---|---|"
METRICS = ("rate", "CPU per record", "peak memory", "share of the broker's limit")
TITLES = {
    "mock": "librdkafka's mock cluster, one broker",
    "kafka": "Apache Kafka, one node",
    "embedded": "The embedded broker",
}


def write_table(report: Report, page: Path) -> None:
    """Replace the text between the marks.

    Args:
        report: Report of a race, whole or merged.
        page: Text of a page with both marks.
    """
    head, _, rest = page.read_text("utf-8").partition(BEGIN)
    _, _, tail = rest.partition(END)
    today = dt.datetime.now(tz=dt.UTC).date()
    machine = f"{today}; {facts_line(machine_facts())}."
    tables = [line for broker in TITLES for line in _table(report.rows, broker)]
    page.write_text("\n".join([f"{head}{BEGIN}", machine, *tables, f"{END}{tail}"]), "utf-8")


def _table(rows: list[Row], broker: str) -> Iterator[str]:
    found = {(row.series, row.metric): row for row in rows}
    names = list(dict.fromkeys(row.series for row in rows if row.metric == f"{broker}: rate"))
    if not names:
        return
    yield from ("", f"**{TITLES[broker]}**", "", HEADING, RULE)
    for name in names:
        rate, cpu, memory, share = (found.get((name, f"{broker}: {m}")) for m in METRICS)
        if rate is None or cpu is None or memory is None:
            continue
        cells = [
            name,
            f"{readable(rate.value)} (n={rate.n})",
            _ratio(rate),
            f"{cpu.value:.2f}",
            _ratio(cpu),
            f"{memory.value:.0f}",
            "" if share is None else f"{share.value:.0f} %",
        ]
        yield f"| {' | '.join(cells)} |"


def _ratio(row: Row) -> str:
    """The median of the ratios, and from where to where they lie."""
    if row.ratio is None or row.series == row.baseline:
        return ""
    low, high = min(row.ratios), max(row.ratios)
    return f"{row.ratio:.2f} × ({low:.2f}–{high:.2f})"
