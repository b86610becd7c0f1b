"""Application code in every place where kprod runs it, doing everything that it may do there.

`docs/invariants.md` has the table of promises, cell by cell.
"""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import kprod
from kprod.broker import EmbeddedCluster
from kprod.errors import ClosedError, KprodError, Persistence
from tests.producer.application_code import (
    ACTIONS,
    BESIDE,
    CHILD_OK,
    INNER,
    LATER,
    MARKED,
    PLACES,
    TOPIC,
    WAIT_S,
    Planted,
    Scene,
)

ROOT = Path(__file__).parents[2]
BEFORE_THE_RECORD_IS_SENT = {"trace function", "finalizer while batches are compressed"}
EVERYWHERE = pytest.mark.parametrize("place", PLACES)


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker, one topic of one partition."""
    with EmbeddedCluster(brokers=1, topics={TOPIC: 1, BESIDE: 1}) as running:
        yield running


@pytest.fixture
def scenes(cluster: EmbeddedCluster) -> Iterator["_Scenes"]:
    """Makes scenes, and ends them."""
    made = _Scenes(cluster)
    yield made
    for scene in made.scenes:
        scene.released.set()
        scene.producer.close(WAIT_S)
        scene.end()


class _Scenes:
    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.scenes: list[Scene] = []

    def make(self, place: str, action: str) -> Scene:
        """Make one."""
        scene = Scene(PLACES[place], ACTIONS[action], self.cluster.bootstrap_servers)
        self.scenes.append(scene)
        return scene

    def play(self, place: str, action: str) -> Scene:
        """Make one, and play it until its code has run."""
        scene = self.make(place, action)
        scene.play()
        assert scene.finished.wait(WAIT_S)
        return scene

    def values(self) -> list[bytes | None]:
        """The log's records."""
        return [record.value for record in self.cluster.records(TOPIC).get(0, [])]

    def check_marked(self, scene: Scene) -> BaseException | None:
        """The marked record is rejected, failed or delivered, and the log agrees."""
        assert (scene.outcome is None) == (scene.closed_error is not None)
        error = scene.closed_error if scene.outcome is None else scene.outcome(WAIT_S)
        count = self.values().count(MARKED)
        if getattr(error, "persistence", None) is Persistence.POSSIBLY_PERSISTED:
            assert count <= 1
        else:
            assert count == (error is None)
        return error

    def check_goes_on(self, scene: Scene) -> None:
        """The producer delivers, and ends."""
        producer = scene.producer
        future = producer.send(TOPIC, LATER)
        assert producer.flush(WAIT_S) == 0
        assert future.exception(0) is None
        assert self.values().count(LATER) == 1
        self.check_end(scene)

    @staticmethod
    def check_end(scene: Scene) -> None:
        """It is closed, or can be; then nothing is held."""
        producer = scene.producer
        failed_count = producer.close(WAIT_S)
        if scene.action is ACTIONS["blocks"] and scene.inner is not None:
            # Closed while the sender was held up: records sent meanwhile may fail at its end.
            assert failed_count <= (scene.inner.exception(WAIT_S) is not None)
        else:
            assert failed_count == 0
        assert producer._kprod.thread.has_ended
        assert producer._kprod.pool.available_bytes == producer._kprod.pool.capacity_bytes
        with pytest.raises(KprodError):
            producer.send(TOPIC, b"late")


@EVERYWHERE
@pytest.mark.parametrize("action", ["raises", "raises an Exception"])
def test_it_may_raise(scenes: _Scenes, place: str, action: str) -> None:
    """On the sender's thread nothing stops for it; a caller's `send` raises it, or sends."""
    scene = scenes.play(place, action)
    error = scenes.check_marked(scene)
    assert isinstance(scene.result, Planted | ValueError)
    if place == "trace function":
        # It raises out of a line of kprod's own, as nothing else does: the sender may end of it.
        assert error is None or "the sender thread died" in str(error)
        scenes.check_end(scene)
        return
    if PLACES[place].is_sender:
        assert error is None
    elif error is not None:
        causes = {type(error), type(error.__cause__)}
        # Between Arrow's stream and kprod there is nothing but a text.
        assert causes & {Planted, ValueError} or (
            place == "Arrow source" and "lanted" in str(error)
        )
    if place == "interceptor's close":
        scenes.check_end(scene)
    else:
        scenes.check_goes_on(scene)


@EVERYWHERE
def test_it_may_block(scenes: _Scenes, place: str) -> None:
    """No lock is held: other threads send, flush, read metrics, and close in time."""
    scene = scenes.make(place, "blocks")
    if PLACES[place].is_sender:
        scene.play()
    else:
        # Signal handlers run on the main thread: there the others do, here the scene does.
        helper = threading.Thread(target=_meddle, args=[scene])
        helper.start()
        scene.play()
        helper.join(WAIT_S)
        assert not helper.is_alive()
    if PLACES[place].is_sender:
        helper = threading.Thread(target=_meddle, args=[scene])
        helper.start()
        helper.join(WAIT_S)
        assert not helper.is_alive()
    assert scene.finished.wait(WAIT_S)
    assert scene.result is True  # released by the other thread, when it was through
    assert scene.inner is not None or place == "interceptor's close"
    error = scenes.check_marked(scene)
    if place in BEFORE_THE_RECORD_IS_SENT:
        assert error is None or isinstance(error, ClosedError)
    elif PLACES[place].is_sender:
        assert error is None
    scenes.check_end(scene)
    if scene.inner is not None:
        assert scene.inner.done()


def test_the_hash_of_a_topic_is_never_asked_for(scenes: _Scenes) -> None:
    """Nor is it compared by code of the application, inside the compiled send or anywhere else."""

    class Topic(str):  # noqa: FURB189 - what an application may pass
        __slots__ = ()

        def __hash__(self) -> int:
            raise Planted

        def __eq__(self, other: object) -> bool:
            raise Planted

    scene = scenes.make("delivery callback", "sends")
    future = scene.producer.send(Topic(TOPIC), MARKED)
    assert scene.producer.flush(WAIT_S) == 0
    assert future.exception(0) is None
    assert type(future.result(0).topic) is str


def _meddle(scene: Scene) -> None:
    """Do everything that another thread may do while the code blocks; then release it."""
    assert scene.entered.wait(WAIT_S)
    producer = scene.producer
    try:
        if scene.place.name != "interceptor's close":
            scene.inner = producer.send(TOPIC, INNER)
        producer.flush(0)
        assert producer.metrics()
        # A handler blocks with the lock that logging gives it, for which the line of a close waits.
        if scene.place.is_sender and scene.place.name != "logging handler":
            assert producer.close(0.05) <= 3  # `BESIDE` may be among them
            assert not scene.finished.is_set()
    finally:
        scene.released.set()


@EVERYWHERE
def test_it_may_send(scenes: _Scenes, place: str) -> None:
    """Its records are delivered like any other; a closed producer rejects."""
    scene = scenes.play(place, "sends")
    assert scenes.check_marked(scene) is None
    if place == "interceptor's close":
        assert isinstance(scene.result, ClosedError)
        scenes.check_end(scene)
        return
    assert isinstance(scene.inner, kprod.RecordFuture)
    assert scene.producer.flush(WAIT_S) == 0
    assert scene.inner.exception(0) is None
    assert scenes.values().count(INNER) == 1
    scenes.check_goes_on(scene)


@EVERYWHERE
def test_it_may_flush(scenes: _Scenes, place: str) -> None:
    """On the sender's thread that is rejected at once: it would wait for itself."""
    scene = scenes.play(place, "flushes")
    assert scenes.check_marked(scene) is None
    if PLACES[place].is_sender:
        assert isinstance(scene.result, KprodError)
        assert "would wait for itself" in str(scene.result)
    else:
        assert scene.result == 0
    if place == "interceptor's close":
        scenes.check_end(scene)
    else:
        scenes.check_goes_on(scene)


@EVERYWHERE
def test_it_may_close(scenes: _Scenes, place: str) -> None:
    """On the sender's thread that waits for nothing; the record has an outcome all the same."""
    scene = scenes.play(place, "closes")
    assert isinstance(scene.result, int)
    error = scenes.check_marked(scene)
    assert error is None or isinstance(error, ClosedError)
    scenes.check_end(scene)


def _play_in_child(cluster: EmbeddedCluster, place: str, action: str) -> list[str]:
    done = subprocess.run(
        [
            *(sys.executable, "-W", "ignore", "-m", "tests.producer.application_code"),
            *(place, action, cluster.bootstrap_servers),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=2 * WAIT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.split()


@pytest.mark.slow
@EVERYWHERE
def test_it_may_fork(cluster: EmbeddedCluster, place: str) -> None:
    """The child raises, or fails what it was about to send; the parent delivers."""
    assert _play_in_child(cluster, place, "forks") == [str(CHILD_OK), "NoneType"]
    values = [record.value for record in cluster.records(TOPIC)[0]]
    assert values == [b"before", MARKED]


@pytest.mark.slow
@EVERYWHERE
def test_it_may_drop_the_last_reference(cluster: EmbeddedCluster, place: str) -> None:
    """The sender keeps the producer: the record is delivered, and the interpreter ends well."""
    assert _play_in_child(cluster, place, "drops the last reference") == ["None", "NoneType"]
    values = [record.value for record in cluster.records(TOPIC)[0]]
    assert values == [b"before", MARKED]
