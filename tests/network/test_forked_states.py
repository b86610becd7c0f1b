"""A process that forks in each state of a connection: the child says nothing to the broker."""

import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.protocol.api import ApiKey

ROOT = Path(__file__).parent.parent.parent
TIMEOUT_S = 60  # ends a broken test, never its rhythm
STATES = {
    "TLS_HANDSHAKE": None,
    "CHECKING_API_VERSIONS": ApiKey.API_VERSIONS,
    "AUTHENTICATING": ApiKey.SASL_HANDSHAKE,
    "READY": ApiKey.PRODUCE,
    "REAUTHENTICATING": ApiKey.SASL_HANDSHAKE,
}
"""By state, the request that the broker holds meanwhile; None: it answers nothing at all."""

LET_PASS = {"REAUTHENTICATING": 2}
"""Requests before it: the first logins of both connections."""

SCRIPT = """
import json, os, sys, threading, warnings
import kprod
from kprod.network import node_session

node_session.LOGIN_AGAIN_SHARE = (0.02, 0.022)  # 1.2 s of a minute, as in `early_logins`
settings, wanted = json.loads(sys.argv[1]), sys.argv[2]
producer, offsets, clock = kprod.Producer(settings), [], threading.Event()
has_forked = threading.Event()

def work():
    offsets.append(producer.send("orders", b"one").result(60).offset)
    while wanted == "REAUTHENTICATING" and not has_forked.wait(0.02):
        offsets.append(producer.send("orders", b"one").result(60).offset)

sender = threading.Thread(target=work)
sender.start()

def is_there():
    connections = list(producer._kprod.client.connections.by_node_id.values())
    in_flight = producer.metrics()["producer-metrics"]["requests-in-flight"]
    states = {each.state.current.name for each in connections}
    return wanted in states and (wanted != "READY" or in_flight)

while not is_there():
    clock.wait(0.005)
warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forks beside threads
child = os.fork()
if not child:
    try:
        producer.send("orders", b"child")
    except kprod.errors.ProducerForked:
        producer.close()
        os._exit(7)
    os._exit(1)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
has_forked.set()
print("forked", flush=True)
sys.stdin.readline()
sender.join()
closed = producer.metrics()["producer-metrics"]["connection-close-total"]
print(json.dumps([code, offsets, closed]))
producer.close()
"""


def run(settings: str, state: str, release: Callable[[], object]) -> list[object]:
    """Run the script; `release` ends the state after the fork. Returns what it found."""
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, settings, state],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            release()
            out, err = process.communicate("\n", timeout=TIMEOUT_S)
        finally:
            process.kill()
    assert (said, process.returncode) == ("forked\n", 0), err
    return list(json.loads(out))


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_the_parents_session_lasts(state: str) -> None:
    """It delivers its record on the same connections."""
    wanted = BrokerSecurity(
        protocol="SASL_SSL", users={"alice": "alice-secret"}, session_lifetime_ms=60_000
    )
    gate, held = threading.Event(), STATES[state]
    numbers = itertools.count()

    def hold(frame: bytes) -> bytes:
        if next(numbers) >= LET_PASS.get(state, 0):
            gate.wait(TIMEOUT_S)
        return frame

    with EmbeddedCluster(1, {"orders": 1}, security=wanted) as cluster:
        if held is None:
            cluster.faults.stall(0)
            release: Callable[[], object] = partial(cluster.faults.resume, 0)
        else:
            cluster.faults.rewrite_request(held, hold)
            release = gate.set
        found = run(json.dumps(cluster.client_settings()), state, release)
        sent = len(cluster.records("orders")[0])
        assert found == [7, list(range(sent)), 0.0]
        assert sent == 1 or state == "REAUTHENTICATING"
