"""The script that every client goes through, the same for all of them."""

import signal

from kprod.broker.group.view import GroupView
from tests.strangers.cast import GROUP
from tests.strangers.stage import Stage


def run(stage: Stage) -> int:
    """Join, second join, leave, SIGKILL, stall, static restart, moved and stopped coordinator.

    After every step the group shares all partitions again, and every record is read.

    Returns:
        How many records are committed in the end, at a cluster that started again.
    """
    stage.start("a")
    stage.load()
    stage.settle(1)
    _join(stage)

    stage.end("b", signal.SIGTERM)  # leaves; a static member's session ends
    stage.settle(1)
    stage.load()

    _join(stage)
    stage.end("b", signal.SIGKILL)
    stage.settle(1)
    stage.load()

    _join(stage)
    _stall(stage)
    if stage.is_static:
        for name in ("a", "b"):
            _restart(stage, name)
    _move(stage)
    _stop_broker(stage)

    for name in ("a", "b"):
        stage.end(name, signal.SIGTERM)
    stage.wait("the group is empty", lambda: _is_empty(stage.view))
    stage.check()
    before = stage.committed()
    stage.restart_cluster()
    assert stage.committed() == before
    return sum(before.values())


def _join(stage: Stage) -> None:
    stage.start("b")
    stage.settle(2)
    stage.load()


def _stall(stage: Stage) -> None:
    stage.members["b"].send(signal.SIGSTOP)
    stage.settle(1)
    stage.load()
    stage.members["b"].send(signal.SIGCONT)
    stage.settle(2)
    stage.load()


def _restart(stage: Stage, name: str) -> None:
    """A static member that comes again within its session causes no rebalance.

    Its first join is answered with the generation that its predecessor has joined last. That need
    not be the one from before: a cooperative member joins once more when it has given partitions
    up, as the member to be killed may do while its successor's program loads. The successor may ask
    for a rebalance later, as kafka-python does when it learns of the topic.
    """
    stage.settle(2)
    count = len(stage.joins)

    def has_joined() -> bool:
        return any(it.is_new and it.instance == name for it in stage.joins[count:])

    stage.replace(name)
    stage.wait("the instance has joined again", has_joined)
    joins = [it for it in stage.joins if it.instance == name]
    at = max(index for index, it in enumerate(joins) if it.is_new)
    assert joins[at].generation == joins[at - 1].generation
    stage.load()
    stage.settle(2)


def _move(stage: Stage) -> None:
    view = stage.settle(2)
    stage.cluster.move_coordinator(GROUP, to=(view.coordinator + 1) % 3)
    stage.load()
    stage.settle(2)


def _stop_broker(stage: Stage) -> None:
    coordinator = stage.settle(2).coordinator
    stage.cluster.stop_broker(coordinator)
    stage.load()
    assert stage.settle(2).coordinator != coordinator
    stage.cluster.start_broker(coordinator)
    stage.load()
    stage.settle(2)


def _is_empty(view: GroupView | None) -> bool:
    return view is not None and view.state == "Empty"
