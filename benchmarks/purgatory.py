"""Requests in a purgatory at rising rates: kprod's design beside the one of Kafka 0.8.

Confluent's experiment (Y. Matsuda, 2015): requests arrive as a Poisson process, each watches 3 of
100 keys and completes after a log-normal time, or at its timeout of 200 ms. Two cases: half of them
complete within 20 ms (three quarters within 60 ms), or within 200 ms (400 ms). A broker's loop
drives everything: arrivals, completions, the timer, and then a sleep until the next
millisecond that has work.

A second part holds the rate and lets the timeout be 200 ms or 30 s: requests held, and their cost.
Held counts requests that the purgatory keeps alive, live those that are not completed.

Thread-safety: one thread.
Source: Kafka's TestPurgatoryPerformance.java for the method (sigma = ln(p75 / p50) / 0.67449).
"""

import gc
import heapq
import math
import random
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from purgatory_old import OldPurgatory, OldRequest
from report import Contestant, Report, main
from report_values import Metric

from kprod.timer import DelayedOperation, Purgatory, Timer

KEY_COUNT = 100
KEYS_EACH = 3
TIMEOUT_MS = 200
QUARTILE_SIGMAS = 0.67449
"""Distance of a normal distribution's upper quartile from its median, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Case:
    """Time that requests take to complete: median and upper quartile."""

    p50_ms: float
    p75_ms: float

    def __str__(self) -> str:
        """Name it."""
        return f"p50 {self.p50_ms:g} ms, p75 {self.p75_ms:g} ms"


QUICK_CASE = Case(20, 60)
SLOW_CASE = Case(200, 400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests, in the order in which they arrive."""

    timeout_ms: int
    arrivals_ms: Sequence[float]
    lasting_ms: Sequence[float]
    keys: Sequence[Sequence[int]]


def load_of(case: Case, rate: int, seconds: float, timeout_ms: int) -> Load:
    """Draw the requests of one run."""
    generator = random.Random(rate)
    count = int(rate * seconds)
    sigma = math.log(case.p75_ms / case.p50_ms) / QUARTILE_SIGMAS
    arrivals_ms, now_ms = [], 0.0
    for _ in range(count):
        now_ms += generator.expovariate(rate / 1_000)
        arrivals_ms.append(now_ms)
    return Load(
        timeout_ms=timeout_ms,
        arrivals_ms=arrivals_ms,
        lasting_ms=[generator.lognormvariate(math.log(case.p50_ms), sigma) for _ in range(count)],
        keys=[generator.sample(range(KEY_COUNT), KEYS_EACH) for _ in range(count)],
    )


class Request(DelayedOperation):
    """Completes when the load says so."""

    __slots__ = ()

    def try_complete(self) -> bool:
        """No key's event completes it."""
        return False

    def on_complete(self) -> None:
        """Answer nobody."""


class Side(Protocol):
    """A purgatory under load."""

    @property
    def request(self) -> Callable[[int], Any]:
        """Make a request with that timeout, ms."""

    @property
    def watch(self) -> Callable[[Any, Sequence[Hashable]], object]:
        """Accept a request."""

    @property
    def advance(self) -> Callable[[int], object]:
        """Move the time."""

    @property
    def held_count(self) -> int:
        """Requests that it keeps alive."""


class New:
    """kprod's."""

    request = Request

    def __init__(self) -> None:
        """Start empty."""
        timer = Timer(0)
        self.purgatory: Purgatory[Request] = Purgatory("benchmark", timer)
        self.watch = self.purgatory.try_complete_or_watch
        self.advance = timer.advance

    @property
    def held_count(self) -> int:
        """Requests in lists or in the timer, whichever are more."""
        return max(self.purgatory.watched_count // KEYS_EACH, self.purgatory.delayed_count)


class Old(OldPurgatory):
    """Kafka 0.8's."""

    request = OldRequest


SIDES: dict[str, Callable[[], Side]] = {"kprod": New, "Kafka 0.8's design": Old}


class Run:
    """One load on one side, by the clock."""

    def __init__(self, side: Side, load: Load) -> None:
        """Start without requests."""
        self.side = side
        self.load = load
        self.next = 0
        self.completions: list[tuple[float, int, Any]] = []
        self.live = 0
        self.ratios: list[float] = []

    def go(self) -> Mapping[str, float]:
        """Run it; the figures."""
        count = len(self.load.arrivals_ms)
        sampled_ms = 0
        gc.collect()
        started_s, started_cpu_s = time.perf_counter(), time.process_time()
        while self.next < count:
            now_ms = int((time.perf_counter() - started_s) * 1_000)
            self._turn(now_ms)
            if now_ms >= sampled_ms + 100:
                sampled_ms = now_ms
                self.ratios.append(self.side.held_count / max(1, self._live_count()))
            # The arrivals of a millisecond come together: a sleep for each would cost more.
            time.sleep(0.001 if time.perf_counter() - started_s < (now_ms + 1) / 1_000 else 0)
        elapsed_s, cpu_s = time.perf_counter() - started_s, time.process_time() - started_cpu_s
        settled = self.ratios[len(self.ratios) // 3 :] or [0.0]
        return {
            "rate": count / elapsed_s,
            "cpu": cpu_s * 1e6 / count,
            "held": sum(settled) / len(settled),
        }

    def _turn(self, now_ms: int) -> None:
        load, side, completions = self.load, self.side, self.completions
        make, watch = side.request, side.watch
        index, count = self.next, len(load.arrivals_ms)
        while index < count and load.arrivals_ms[index] <= now_ms:
            request = make(load.timeout_ms)
            watch(request, load.keys[index])
            heapq.heappush(completions, (now_ms + load.lasting_ms[index], index, request))
            index += 1
        self.next = index
        while completions and completions[0][0] <= now_ms:
            heapq.heappop(completions)[2].force_complete()
        side.advance(now_ms)

    def _live_count(self) -> int:
        if isinstance(self.side, Old):
            return sum(not entry[2].satisfied for entry in self.completions)
        return sum(not entry[2].completed for entry in self.completions)


def measure(side: Callable[[], Side], load: Load, names: Mapping[str, str]) -> Mapping[str, float]:
    """Run a load once; its figures under the metrics' names."""
    return {names[key]: value for key, value in Run(side(), load).go().items()}


def rising_rates(report: Report, case: Case) -> None:
    """Offer more and more, until neither side keeps up."""
    names = {"rate": f"achieved rate, {case}", "cpu": f"CPU per request, {case}", "held": "held"}
    metrics = [
        Metric(names["rate"], "requests/s", against="target rate, requests/s"),
        Metric(names["cpu"], "us", more_is_better=False, against="target rate, requests/s"),
    ]
    for rate in report.pick((5_000, 10_000, 20_000, 40_000, 60_000, 80_000), (5_000,)):
        load = load_of(case, rate, report.pick(3, 1), TIMEOUT_MS)
        sides = [
            Contestant(name, partial(measure, make, load, names)) for name, make in SIDES.items()
        ]
        report.compare(sides, metric=metrics, baseline="Kafka 0.8's design", at=rate)


def two_timeouts(report: Report) -> None:
    """The same rate with timeouts of 200 ms and 30 s."""
    names = {
        "rate": "achieved rate, by timeout",
        "cpu": "CPU per request, by timeout",
        "held": "held requests per live one, by timeout",
    }
    metrics = [
        Metric(names["rate"], "requests/s"),
        Metric(names["cpu"], "us", more_is_better=False),
        Metric(names["held"], "ratio", more_is_better=False),
    ]
    rate, seconds = report.pick((10_000, 10), (3_000, 1))
    sides = []
    for timeout_ms in (200, 30_000):
        load = load_of(QUICK_CASE, rate, seconds, timeout_ms)
        sides += [
            Contestant(f"{name}, {timeout_ms:,} ms", partial(measure, make, load, names))
            for name, make in SIDES.items()
        ]
    report.compare(sides, metric=metrics, baseline="kprod, 200 ms", rounds=3)


def benchmark(report: Report) -> None:
    """Fill the report."""
    part = report.options.extra.part
    if part in {None, "timeouts"}:
        two_timeouts(report)
    if part in {None, "rates"}:
        for case in (QUICK_CASE, SLOW_CASE):
            rising_rates(report, case)


if __name__ == "__main__":
    main(
        "Purgatory",
        benchmark,
        arguments=lambda parser: parser.add_argument("--part", choices=["timeouts", "rates"]),
    )
