"""`kprod perf` beside the race: do both find the same rate for the same work?

A pair is one run of kprod by `compare_clients` and one by the command `kprod perf`, each in a
process of its own: as many values of 100 bytes, to a topic of one partition, on the same broker.
The second of every two pairs runs in the reverse order of the first. The command measures latencies
and reports meanwhile, which the race does not: what that costs is the ratio.

Both do the same work. The race starts its clock after a first record, when connection, topic and
producer id are there; the command's rate is that of its steady state, behind a short warm-up. The
race sends one value again and again, which stays in the processor's cache, and so does the command
here; `--random` lets it make up ten thousand values, as it does by default.

    python benchmarks/perf_rate.py
    python benchmarks/perf_rate.py --broker kafka --pairs 6 --records 20000000

It prints each pair, and the median ratios of the command's rate and CPU time to the race's with
their exact intervals (`ratio_interval.py`). A run counts only if the topic's end offset equals the
records sent. The exit code is 1 when the median ratio of the rates is below 0.9.

Thread-safety: one thread, the caller's.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import race_brokers
from measure import child_figures
from race_brokers import RaceBroker
from ratio_interval import compared, orders

from kprod.perf.machine import facts_line, machine_facts

PERF, RACE = "kprod perf", "race"
VALUE_BYTES = 100
RECORDS, PAIRS = 20_000_000, 8
RATIO_MIN = 0.9
SEED = 32
LIMIT_S = 300.0
WARM_UP = 10_000  # one block of the command's loop
_SUMMARY = re.compile(
    r"^(?P<count>\d+) records sent, .* 99\.9th\.\n"
    r"\d+ steady state records sent, (?P<rate>[\d.]+) records/sec .*\n"
    r"latency: .*\nclient: (?P<cpu_us>[\d.]+) us of CPU a record",
    re.MULTILINE,
)


class Figures(NamedTuple):
    """The results of one run.

    Attributes:
        rate: Records per second.
        cpu_us: CPU time of the client's process, user and system, for each record.
    """

    rate: float
    cpu_us: float


def race_rate(broker: RaceBroker, topic: str, record_count: int) -> Figures:
    """Send as `compare_clients` does.

    Args:
        broker: Broker to send to.
        topic: Exists, and is empty.
        record_count: Number of records, besides one that is sent before the measurement.

    Returns:
        Its figures.

    Raises:
        RuntimeError: The broker has another number of records.
    """
    figures = child_figures(
        [
            str(Path(__file__).with_name("compare_clients.py")),
            *("--child", "kprod", "--kafka", broker.address, "--topic", topic),
            *("--seconds", "0", "--bytes", str(record_count * VALUE_BYTES)),
        ],
        timeout_s=LIMIT_S,
    )
    _check(broker, topic, int(figures["offset"]))
    count = figures["count"]
    return Figures(count / figures["elapsed_s"], figures["cpu_s"] * 1e6 / count)


def perf_rate(broker: RaceBroker, topic: str, record_count: int, payload: Sequence[str]) -> Figures:
    """Send by the command, as its user calls it.

    Args:
        broker: Broker to send to.
        topic: Exists, and is empty.
        record_count: Number of records.
        payload: The command's options for its values.

    Returns:
        Its figures, as the command prints them.

    Raises:
        RuntimeError: The command failed, or the broker has another number of records.
    """
    command = [
        *(sys.executable, "-m", "kprod.cli", "perf", "-b", broker.address, "-t", topic),
        *("--num-records", str(record_count), "--warmup-records", str(WARM_UP), *payload),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    found = _SUMMARY.search(done.stdout)
    if done.returncode or found is None:
        raise RuntimeError(f"exit code {done.returncode}: {done.stdout}{done.stderr}")
    _check(broker, topic, int(found["count"]))
    return Figures(float(found["rate"]), float(found["cpu_us"]))


def _check(broker: RaceBroker, topic: str, sent_count: int) -> None:
    end_offset = broker.end_offset(topic)
    if end_offset != sent_count:
        raise RuntimeError(f"{sent_count:,} records were sent, {broker.name} has {end_offset:,}")


def run_pair(
    order: Sequence[str], broker_name: str, record_count: int, payload: Sequence[str]
) -> dict[str, Figures]:
    """Run both sides on one broker.

    Args:
        order: The sides in the order in which they run.
        broker_name: One of `race_brokers.NAMES`.
        record_count: Number of records that each side sends.
        payload: The command's options for its values.

    Returns:
        Figures by side.

    Raises:
        RuntimeError: A run failed, or the broker has another number of records.
    """
    figures: dict[str, Figures] = {}
    with race_brokers.running(broker_name) as broker:
        for side in order:
            with broker.topic(side) as topic:
                figures[side] = (
                    perf_rate(broker, topic, record_count, payload)
                    if side == PERF
                    else race_rate(broker, topic, record_count)
                )
    return figures


def _payload(directory: str, *, is_random: bool) -> Sequence[str]:
    if is_random:
        return ("--record-size", str(VALUE_BYTES))
    file = Path(directory, "value")
    file.write_bytes(b"v" * VALUE_BYTES)
    return ("--payload-file", str(file))


def main() -> int:
    """Run all pairs, and print their ratios.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--broker", choices=race_brokers.NAMES, default=race_brokers.NAMES[0])
    parser.add_argument("--records", type=int, default=RECORDS, help="of each run")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--random", action="store_true", help="values that the command makes up")
    given = parser.parse_args()
    pairs: list[dict[str, Figures]] = []
    with tempfile.TemporaryDirectory() as directory:
        payload = _payload(directory, is_random=given.random)
        for number, order in enumerate(orders((RACE, PERF), given.pairs, SEED), start=1):
            pair = run_pair(order, given.broker, given.records, payload)
            pairs.append(pair)
            sides = (f"{side} {it.rate:,.0f}/s {it.cpu_us:.3f} us" for side, it in pair.items())
            ratio = pair[PERF].rate / pair[RACE].rate
            print(f"pair {number}: {', '.join(sides)}, ratio {ratio:.3f}", flush=True)
    rate = compared([pair[PERF].rate for pair in pairs], [pair[RACE].rate for pair in pairs])
    cpu = compared([pair[PERF].cpu_us for pair in pairs], [pair[RACE].cpu_us for pair in pairs])
    print(f"{given.broker}: {given.pairs} pairs of {given.records:,} records")
    print(f"rate: median ratio {rate}; CPU of a record: {cpu}")
    print(facts_line(machine_facts()))
    return 0 if rate.median >= RATIO_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
