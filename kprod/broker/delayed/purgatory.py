"""Operations that wait under keys, until a condition, a force or their time completes them.

Thread-safety: the broker's thread.
Source: Kafka DelayedOperation and DelayedOperationPurgatory.
"""

from collections.abc import Hashable, Iterable

from kprod._core.wheel import TimerTask
from kprod.timer.timer import Timer


class DelayedOperation:
    __slots__ = ("completed", "delay_ms", "task")

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self.completed = False
        self.task = TimerTask(self.expire)

    def force_complete(self) -> bool:
        if self.completed:
            return False
        self.completed = True
        self.task.cancel()
        self.on_complete()
        return True

    def expire(self) -> None:
        if self.force_complete():
            self.on_expire()

    def try_complete(self) -> bool:
        raise NotImplementedError

    def on_complete(self) -> None:
        raise NotImplementedError

    def on_expire(self) -> None:
        raise NotImplementedError


class Purgatory:
    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._watched: dict[Hashable, list[DelayedOperation]] = {}

    def try_complete_or_watch(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> bool:
        if operation.try_complete():
            return True
        for key in keys:
            self._watched.setdefault(key, []).append(operation)
        self._timer.add(operation.delay_ms, operation.task)
        return False

    def check_and_complete(self, key: Hashable) -> int:
        operations = self._watched.get(key)
        if not operations:
            return 0
        left = [it for it in operations if not it.completed and not it.try_complete()]
        if left:
            self._watched[key] = left
        else:
            self._watched.pop(key, None)
        return len(operations) - len(left)
