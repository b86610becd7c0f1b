"""The files of the page about production, run with the frameworks that they are for."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import pytest

from kprod.broker import EmbeddedCluster
from tests.docs.examples import ROOT, read

LIMIT_S = 60
PAGE = (ROOT / "docs" / "production.md").read_text("utf-8")
FILES = read(PAGE).files
MANIFEST = PAGE.partition("```yaml\n")[2].partition("```")[0]
LOSING = """\
import os, time
from kprod import Producer
producer = Producer(bootstrap_servers=os.environ["KAFKA"], linger_ms=60_000)
for number in range(1_000):
    producer.send("orders", b"order", key=b"%d" % number)
print("sent", flush=True)
time.sleep(60)
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """A broker with the page's topic."""
    with EmbeddedCluster(1, {"orders": 4}) as cluster:
        yield cluster


def _keys(cluster: EmbeddedCluster) -> list[int]:
    return sorted(
        int(record.key or b"-1") for found in cluster.records("orders").values() for record in found
    )


def _environment(cluster: EmbeddedCluster) -> Mapping[str, str]:
    return {**os.environ, "KAFKA": cluster.bootstrap_servers, "PYTHONPATH": str(ROOT)}


@contextlib.contextmanager
def _running(
    cluster: EmbeddedCluster, directory: Path, *command: str
) -> Generator[subprocess.Popen[str]]:
    """Run Python with the page's files beside it; both outputs are one."""
    for name, text in FILES.items():
        (directory / name).write_text(text, "utf-8")
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=directory,
        env=_environment(cluster),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _await(process: subprocess.Popen[str], pattern: str) -> re.Match[str]:
    """Read lines up to one that matches."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        found = re.search(pattern, line)
        if found is not None:
            return found
    pytest.fail(f"no line matches {pattern!r}: {said}")


def _asked(url: str, method: str = "GET") -> tuple[int, dict[str, object]]:
    request = urllib.request.Request(url, method=method)  # noqa: S310 - a server started here
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as response:  # noqa: S310 - as above
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_every_file_of_the_page_is_run_here() -> None:
    """A file more needs a test."""
    assert set(FILES) == {
        *("fastapi_app.py", "wsgi_app.py", "celery_app.py", "workers.py", "service.py"),
        *("own_handler.py", "json_logs.py", "traced.py"),
    }


def test_fastapi(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """Orders come back with their offsets; probes follow the cluster; SIGTERM ends in order."""
    command = ("-m", "uvicorn", "fastapi_app:app", "--port", "0")
    with _running(cluster, tmp_path, *command) as server:
        url = _await(server, r"running on (http://[\d.]+:\d+)")[1]
        for number in range(20):
            code, body = _asked(f"{url}/orders/{number}", "POST")
            assert (code, set(body)) == (200, {"partition", "offset"})
        assert _asked(f"{url}/health/live") == (200, {"reason": None})
        assert _asked(f"{url}/health/ready") == (200, {"reason": None})
        server.send_signal(signal.SIGTERM)
        assert "Finished server process" in server.communicate(timeout=LIMIT_S)[0]
    assert _keys(cluster) == list(range(20))


def test_the_probes_of_kubernetes(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """The page's manifest asks what the service answers: both paths, while the brokers come and go.

    Kubernetes itself is not run: its probe is a GET that fails from 400 on.
    """
    probes = dict(re.findall(r"^(\w+):\n  httpGet: \{path: (\S+),", MANIFEST, re.MULTILINE))
    assert set(probes) == {"livenessProbe", "readinessProbe"}
    grace = re.search(r"^terminationGracePeriodSeconds: (\d+)$", MANIFEST, re.MULTILINE)
    assert grace is not None
    assert int(grace[1]) > 20  # longer than the page's close_on_sigterm waits
    command = ("-m", "uvicorn", "fastapi_app:app", "--port", "0")
    with _running(cluster, tmp_path, *command) as server:
        url = _await(server, r"running on (http://[\d.]+:\d+)")[1]
        _asked(f"{url}/orders/1", "POST")
        _await_probe(url, probes, 200)
        cluster.stop_broker(0)
        _await_probe(url, probes, 503)
        cluster.start_broker(0)
        _await_probe(url, probes, 200)
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=LIMIT_S)


def _await_probe(url: str, probes: Mapping[str, str], wanted: int) -> None:
    """Ask until the service is ready, or is not; it is alive all the time."""
    for _ in range(LIMIT_S * 10):
        code, body = _asked(url + probes["readinessProbe"])
        assert _asked(url + probes["livenessProbe"])[0] == 200
        if code == wanted:
            assert (body["reason"] is None) == (code == 200)
            return
        threading.Event().wait(0.1)
    pytest.fail(f"it never answers {wanted}: {body}")


def test_gunicorn_with_workers_that_were_forked(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """Nothing that a worker took is lost when gunicorn is stopped at once."""
    command = ("-m", "gunicorn", "--workers", "2", "--preload", "--bind", "127.0.0.1:0")
    with _running(cluster, tmp_path, *command, "wsgi_app") as server:
        url = _await(server, r"Listening at: (http://[\d.]+:\d+)")[1]
        for number in range(50):
            assert _asked(f"{url}/orders/{number}")[0] == 200
        server.send_signal(signal.SIGTERM)
        said, _ = server.communicate(timeout=LIMIT_S)
        assert server.returncode == 0, said
    assert _keys(cluster) == list(range(50))


def test_celery(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """Tasks in the pool's processes deliver; the worker's end closes their producers."""
    (tmp_path / "queue").mkdir()
    driver = """\
import sys
from celery_app import app, order
folder = "queue"
app.conf.broker_url = "filesystem://"
app.conf.broker_transport_options = {"data_folder_in": folder, "data_folder_out": folder}
app.conf.worker_hijack_root_logger = False
if sys.argv[1] == "send":
    for number in range(30):
        order.delay(number)
else:
    app.worker_main(["worker", "--pool", "prefork", "--concurrency", "2", "--loglevel", "INFO"])
"""
    (tmp_path / "driver.py").write_text(driver, "utf-8")
    with _running(cluster, tmp_path, "driver.py", "work") as worker:
        _await(worker, r"ready\.")
        with _running(cluster, tmp_path, "driver.py", "send") as sender:
            assert sender.wait(LIMIT_S) == 0
        done = {_await(worker, r"Task celery_app.order\[(\S+)\] succeeded")[1] for _ in range(30)}
        assert len(done) == 30
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=LIMIT_S)
    assert _keys(cluster) == list(range(30))


def test_children_of_multiprocessing(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """Each child has a producer of its own, and closes it."""
    with _running(cluster, tmp_path, "workers.py", cluster.bootstrap_servers) as parent:
        said, _ = parent.communicate(timeout=LIMIT_S)
        assert (parent.returncode, said) == (0, "")
    assert _keys(cluster) == list(range(4_000))


@pytest.mark.parametrize("file", ["service.py", "own_handler.py"])
def test_lingering_records_outlive_sigterm(
    file: str, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    """A thousand records that would linger for a minute are sent; exit code 143."""
    with _running(cluster, tmp_path, file) as service:
        _await(service, "sent")
        service.send_signal(signal.SIGTERM)
        said, _ = service.communicate(timeout=LIMIT_S)
        assert (service.returncode, said) == (143, "")
    assert _keys(cluster) == list(range(1_000))


def test_without_a_handler_they_are_lost(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """As the page says: the test above would pass for another reason else."""
    with _running(cluster, tmp_path, "-c", LOSING) as service:
        _await(service, "sent")
        service.send_signal(signal.SIGTERM)
        service.communicate(timeout=LIMIT_S)
        assert service.returncode == -signal.SIGTERM
    assert _keys(cluster) == []


def test_log_lines_as_json(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """Every line is an object, with event and client."""
    with _running(cluster, tmp_path, "json_logs.py") as program:
        said, _ = program.communicate(timeout=LIMIT_S)
    lines = [json.loads(line) for line in said.splitlines()]
    events = [line["event"] for line in lines]
    assert {"connected", "producer_id", "closing"} <= set(events)
    assert events[-1] == "closed"
    assert {line["client"] for line in lines} == {"shop"}


def test_trace_context(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """The record has the header of the span in which it was sent."""
    with _running(cluster, tmp_path, "traced.py") as program:
        said, _ = program.communicate(timeout=LIMIT_S)
        assert (program.returncode, said) == (0, "")
    (record,) = [record for found in cluster.records("orders").values() for record in found]
    (header,) = record.headers
    assert header.key == "traceparent"
    assert re.fullmatch(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-0[13]", header.value or b"")
