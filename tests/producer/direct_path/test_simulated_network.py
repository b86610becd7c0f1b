"""The direct path over a simulated network, with simulated threads, in virtual time."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kprod.errors import KprodTimeout
from tests.producer.direct_path.scene import ROUND_TRIP_MS, Scene, opened_scene

if TYPE_CHECKING:
    import kprod


@pytest.fixture
def scene() -> Iterator[Scene]:
    """A scene; the system's threads come back afterwards."""
    with opened_scene() as made:
        yield made


def test_a_record_goes_and_comes_while_the_sender_sleeps(scene: Scene) -> None:
    """The caller writes the request, waits at the socket, and takes the response in."""
    began_ms, wakeups = scene.clock.now_ms(), scene.selector.wakeups
    offsets: list[int] = []

    scene.in_a_sleep(lambda: offsets.append(scene.send_plainly(b"v").result(1).offset))

    assert offsets == [0]
    assert scene.socket_wait.waits_s == [1]
    assert scene.clock.now_ms() == began_ms + ROUND_TRIP_MS
    assert scene.selector.wakeups == wakeups


def test_a_response_that_is_too_late_is_the_sender_s(scene: Scene) -> None:
    """The caller's wait ends in virtual time; then the selector watches the connection again."""
    scene.round_trip_ms = 3_000
    futures: list[kprod.RecordFuture] = []

    def act() -> None:
        futures.append(scene.send_plainly(b"v"))
        with pytest.raises(KprodTimeout):
            futures[0].result(2)

    began_ms = scene.clock.now_ms()
    scene.in_a_sleep(act)
    assert scene.clock.now_ms() == began_ms + 2_000

    assert futures[0].result(60).offset == 0
    assert scene.socket_wait.waits_s == [2]
