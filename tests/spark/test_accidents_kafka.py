"""A streaming query on two executors into Apache Kafka, while one part after the other is killed.

`make spark-test` takes an hour of it; `KPROD_SPARK_ACCIDENTS_S` is its length in seconds.
"""

import json
import os
import random
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kprod.clock import SystemClock
from kprod.spark import writes
from tests.plugins.kafka_nodes import KafkaNodes
from tests.spark.accidents import (
    in_turn,
    kill_all,
    kill_drivers_worker,
    kill_executor,
    kill_worker,
)
from tests.spark.reading import read_topic
from tests.spark.running import SparkProgram, need_spark
from tests.spark.work_directory import clean_work

if TYPE_CHECKING:
    from kprod.spark.task_messages import WriteReport

LENGTH_S = float(os.environ.get("KPROD_SPARK_ACCIDENTS_S", "180"))
BATCH_ROWS = 20_000
PAUSE_S = (8.0, 20.0)
END_TIMEOUT_S = 240.0
END_OF_QUERY_S = 60.0  # from the death of a worker that commits to the end of its program

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(LENGTH_S + 1_200)]


class Query:
    """The query's program, started again with its checkpoint after its driver was killed.

    Args:
        directory: Has checkpoint and reports.
        servers: The brokers.
    """

    def __init__(self, directory: Path, servers: str) -> None:
        self._directory = directory
        self._servers = servers
        self._starts = 0
        self._begin()

    def _begin(self) -> None:
        self._starts += 1
        arguments = ["--servers", self._servers, "--rows", str(BATCH_ROWS)]
        arguments += ["--master", "local-cluster[2,1,1024]", "endless"]
        self.program = SparkProgram(self._directory / f"run{self._starts}", arguments)

    def kill_driver(self) -> bool:
        """Kill the driver and all that it started, and start it again.

        Returns:
            Whether it was running.
        """
        assert not self.program.has_ended(0), self.program.log_tail()
        kill_all(self.program.pid)
        self.program.kill()
        self._begin()
        return True

    def kill_drivers_worker(self, rng: random.Random) -> bool:
        """Kill a worker of the driver, and start the query again if that ends it.

        Spark ends a query whose commit failed, and restarts a worker that plans.

        Returns:
            Whether there was one.
        """
        is_killed = kill_drivers_worker(self.program.pid, rng)
        if is_killed and self.program.has_ended(END_OF_QUERY_S):
            assert "STREAM_FAILED" in self.program.log_tail()
            self._begin()
        return is_killed

    def end(self) -> int:
        """Let it end in order.

        Returns:
            Its last micro-batch.
        """
        (self._directory / "enough").touch()
        return int(self.program.result(END_TIMEOUT_S)["endless"])


@pytest.fixture
def work() -> Generator[None]:
    """Delete what executors leave in PySpark's own directory.

    Yields:
        Nothing.
    """
    need_spark()
    with clean_work():
        yield


@pytest.mark.may_leak("librdkafka ends its threads in its own time")
@pytest.mark.usefixtures("work")
def test_accidents_lose_nothing(kafka: KafkaNodes, tmp_path: Path) -> None:
    """Every row of every committed batch is there; repeats are those that the report allows for."""
    rng = random.Random(29)
    kafka.create_topic("endless", partitions=6)
    query = Query(tmp_path, kafka.bootstrap_servers)
    counts: Counter[str] = Counter()

    def restart_broker() -> bool:
        kafka.kill(1)
        kafka.node(1).await_end(30)
        kafka.restart(1)
        return True

    accidents = {
        "worker": lambda: kill_worker(query.program.pid, rng),
        "executor": lambda: kill_executor(query.program.pid, rng),
        "broker": restart_broker,
        "driver": query.kill_driver,
        "driver's worker": lambda: query.kill_drivers_worker(rng),
    }
    names = {accident: name for name, accident in accidents.items()}
    clock = SystemClock()
    began_ms = clock.now_ms()
    for accident in in_turn(*accidents.values()):
        done = len(list(writes(tmp_path / "reports")))
        while len(list(writes(tmp_path / "reports"))) < done + 2:
            # The next accident comes once the query has gone on after the last one.
            assert not query.program.has_ended(1), query.program.log_tail()
            assert clock.now_ms() - began_ms < (LENGTH_S + END_TIMEOUT_S) * 1_000, (
                query.program.log_tail()
            )
        if clock.now_ms() - began_ms >= LENGTH_S * 1_000:
            break
        assert not query.program.has_ended(rng.uniform(*PAUSE_S)), query.program.log_tail()
        counts[names[accident]] += accident()
    last_batch = query.end()
    _check(kafka, tmp_path, last_batch, counts)


def _check(kafka: KafkaNodes, directory: Path, last_batch: int, counts: Counter[str]) -> None:
    reports = list(writes(directory / "reports"))
    by_batch: dict[int | None, WriteReport] = {each.batch_id: each for each in reports}
    seen = Counter(int(m.value()) for m in read_topic(kafka.bootstrap_servers, "endless"))
    wanted = range((last_batch + 1) * BATCH_ROWS)
    missing = sum(number not in seen for number in wanted)
    repeated = seen.total() - len(seen)
    reported = sum(each.repeated_count_max for each in reports)
    # A driver's death, or that of its worker, has its batch written again, whole.
    bound = reported + (counts["driver"] + counts["driver's worker"]) * BATCH_ROWS
    found = {
        "accidents": counts,
        "batches": last_batch + 1,
        "rows": len(wanted),
        "missing": missing,
        "repeated": repeated,
        "repeated, at most, by the reports": reported,
        "attempts beyond the first": sum(r.attempt_count - r.task_count for r in reports),
    }
    (directory / "found.json").write_text(json.dumps(found), "utf-8")
    print(json.dumps(found))  # noqa: T201 - the observations
    assert missing == 0, found
    assert set(range(last_batch + 1)) <= by_batch.keys(), found
    assert repeated <= bound, found
    assert set(counts) == {"worker", "executor", "broker", "driver", "driver's worker"}, found
