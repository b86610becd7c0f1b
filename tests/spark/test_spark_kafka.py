"""Two million rows of every kind into Apache Kafka, from each kind of Spark, and through accidents.

Also: keys land where Spark's own Kafka sink puts them.
"""

from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

from kprod.spark import writes
from kprod.spark.task_messages import WriteReport
from tests.plugins.kafka_artifacts import KafkaUnavailableError
from tests.plugins.kafka_nodes import KafkaNodes
from tests.plugins.kafka_secured import USERS, SecuredKafka
from tests.plugins.spark_artifacts import spark_kafka_jars
from tests.spark.reading import read_topic, sum_up
from tests.spark.running import SparkProgram, need_spark, run_job
from tests.spark.scenes import POISON
from tests.spark.work_directory import clean_work

ROWS = 2_000_000
TASK_ROWS = ROWS // 8
CLUSTER = "local-cluster[2,1,1024]"
TIMEOUT_S = 900.0
POLL_S = 0.2

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(3_600)]


@pytest.fixture
def servers(kafka: KafkaNodes) -> Generator[str]:
    """Make the topics, and delete them and what executors leave in PySpark's own directory.

    Yields:
        The broker's address.
    """
    need_spark()
    topics = ("save", "dead", "stream", "fault", "by-kprod", "by-spark")
    for topic in topics:
        kafka.create_topic(topic, partitions=6)
    with clean_work():
        yield kafka.bootstrap_servers
    delete_topics(kafka.bootstrap_servers, *topics)


def delete_topics(servers: str, *topics: str) -> None:
    """Delete topics, so that the next test finds them empty."""
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.delete_topics(list(topics), operation_timeout=30).values():
        future.result(30)


@pytest.mark.may_leak("librdkafka ends its threads in its own time")
@pytest.mark.parametrize(
    "where",
    [("--master", "local[2,3]"), ("--master", CLUSTER), ("--remote", "local[2]")],
    ids=["local", "two executors", "connect"],
)
def test_every_row_arrives(servers: str, tmp_path: Path, where: tuple[str, str]) -> None:
    """Once, with everything it has; the report says how many."""
    arguments = ("--servers", servers, "--rows", str(ROWS), *where, "save")
    found = run_job(tmp_path / "run", *arguments, timeout_s=TIMEOUT_S)["save"]
    topic = sum_up(servers, "save")
    assert topic.sums == found["sums"]
    assert topic.duplicates == 0
    assert topic.wrong_partitions == 0
    assert WriteReport.from_json(found["report"]).record_count == ROWS


@pytest.mark.may_leak("librdkafka ends its threads in its own time")
def test_poison_of_every_kind_stops_nothing(servers: str, tmp_path: Path) -> None:
    """One row in a hundred: the good ones all arrive, the bad ones all are dead letters."""
    arguments = ("--servers", servers, "--rows", str(ROWS), "poison")
    found = run_job(tmp_path / "run", *arguments, timeout_s=TIMEOUT_S)["poison"]
    report = WriteReport.from_json(found)
    each = ROWS // 1_000
    assert report.bad_rows == {
        "null topic": each,
        "illegal topic": 2 * each,
        "negative partition": each,
        "unknown partition": each,
        "timestamp before 1970": each,
        "null header": each,
        "null header key": each,
        "too large": 2 * each,
    }
    assert report.record_count == ROWS - len(POISON) * each
    numbers = {message.key() for message in read_topic(servers, "save")}
    wanted = {b"%d" % n for n in range(ROWS) if n % 1_000 not in POISON}
    assert numbers == wanted
    letters = [dict(message.headers()) for message in read_topic(servers, "dead")]
    assert Counter(letter["kprod.reason"].decode() for letter in letters) == report.bad_rows


@pytest.mark.may_leak("librdkafka ends its threads in its own time")
@pytest.mark.parametrize("master", ["local[2,3]", CLUSTER])
def test_a_stream_continues_where_it_was_killed(servers: str, tmp_path: Path, master: str) -> None:
    """Driver and all killed after two micro-batches, then after five: no row lost."""
    sizes = ("--servers", servers, "--rows", str(ROWS), "--master", master)
    arguments = (*sizes, "--input", str(tmp_path / "input"))
    wanted = run_job(tmp_path / "files", *arguments, "files", timeout_s=TIMEOUT_S)["files"]
    kills = 0
    for goal in (2, 5):
        program = SparkProgram(tmp_path / f"run{goal}", [*arguments, "stream"])
        done = 0
        while done < goal and not program.has_ended(POLL_S):
            reports = [each.batch_id for each in writes(program.directory / "batches")]
            done = max((each for each in reports if each is not None), default=-1) + 1
        kills += not program.has_ended(0)
        program.kill()
    run_job(tmp_path / "run8", *arguments, "stream", timeout_s=TIMEOUT_S)
    topic = sum_up(servers, "stream")
    assert kills == 2
    assert topic.sums == wanted
    assert topic.wrong_partitions == 0
    # A batch that was being written or committed is written again, whole or in part.
    assert topic.duplicates <= kills * TASK_ROWS


@pytest.mark.may_leak("librdkafka ends its threads in its own time")
@pytest.mark.parametrize(
    ("fault", "master"),
    [
        ("raise@200000", "local[2,3]"),
        ("kill_worker@200000", "local[2,3]"),
        ("kill_executor@200000", CLUSTER),
        ("kill_executor", CLUSTER),
    ],
)
def test_no_accident_loses_a_row(servers: str, tmp_path: Path, fault: str, master: str) -> None:
    """In the middle of a task or at its end; only the attempt that failed leaves repetitions."""
    arguments = ("--servers", servers, "--rows", str(ROWS), "--master", master, "--fault", fault)
    found = run_job(tmp_path / "run", *arguments, "fault", timeout_s=TIMEOUT_S)["fault"]
    topic = sum_up(servers, "fault")
    assert topic.sums == found["sums"]
    assert 0 < topic.duplicates <= WriteReport.from_json(found["report"]).repeated_count_max


@pytest.mark.may_leak("librdkafka ends its threads in its own time")
def test_keys_land_where_sparks_own_sink_puts_them(servers: str, tmp_path: Path) -> None:
    """Byte for byte the same keys, in the same partitions."""
    try:
        jars = spark_kafka_jars()
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
    arguments = ("--servers", servers, "--rows", "100000", "--jars", jars, "partitions")
    run_job(tmp_path / "run", *arguments, timeout_s=TIMEOUT_S)
    ours, theirs = (
        {message.key(): message.partition() for message in read_topic(servers, topic)}
        for topic in ("by-kprod", "by-spark")
    )
    assert len(ours) == 100_000
    assert ours == theirs


@pytest.mark.may_leak("librdkafka ends its threads in its own time")
@pytest.mark.parametrize("master", ["local[2,3]", CLUSTER], ids=["local", "two executors"])
def test_tls_and_a_login(kafka_secured: SecuredKafka, tmp_path: Path, master: str) -> None:
    """Every row arrives, and the password is in nothing that Spark wrote."""
    need_spark()
    kafka_secured.create_topic("save", partitions=6)
    login = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.ca.location": str(kafka_secured.directory / "ca.pem"),
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "env:KPROD_OF_A_USER",
    }
    events = tmp_path / "events"
    events.mkdir()
    logged = ("eventLog.enabled=true", "eventLog.compress=false", f"eventLog.dir={events}")
    arguments = [f"--option={name}={value}" for name, value in login.items()]
    arguments += [f"--conf=spark.{each}" for each in logged]
    address = kafka_secured.secured_address("SASL_SSL")
    found = run_job(
        tmp_path / "run",
        *("--servers", address, "--rows", "100000", "--master", master, *arguments, "save"),
        timeout_s=TIMEOUT_S,
        more={"KPROD_OF_A_USER": USERS["alice"]},
    )["save"]
    topic = sum_up(kafka_secured.bootstrap_servers, "save")
    delete_topics(kafka_secured.bootstrap_servers, "save")
    assert topic.sums == found["sums"]
    assert topic.duplicates == 0
    written = [path.read_text("utf-8", "replace") for path in events.rglob("events*")]
    written += [path.read_text("utf-8", "replace") for path in (tmp_path / "run").glob("*log*")]
    assert "SparkListenerSQLExecutionStart" in "".join(written)
    assert USERS["alice"] not in "".join(written)
