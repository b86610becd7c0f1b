"""Operations in a purgatory, in one thread: how they complete, and that none is left."""

from collections.abc import Iterator

import pytest

from kprod.timer import DelayedOperation, Purgatory, Timer


class Waiting(DelayedOperation):
    """Completes when told that it may; keeps a diary."""

    __slots__ = ("diary", "may_complete", "tries")

    def __init__(self, delay_ms: int = 100, *, tries_needed: int | None = None) -> None:
        """Wait; if given, complete in the try of that number."""
        super().__init__(delay_ms)
        self.may_complete = False
        self.diary: list[str] = []
        self.tries = 0
        if tries_needed is not None:
            self.tries = -tries_needed

    def try_complete(self) -> bool:
        """See whether it may."""
        self.tries += 1
        return (self.may_complete or self.tries == 0) and self.force_complete()

    def on_complete(self) -> None:
        """Note it."""
        self.diary.append("complete")

    def on_expire(self) -> None:
        """Note it."""
        self.diary.append("expire")


def made(**settings: int) -> tuple[Timer, Purgatory[Waiting]]:
    """A timer at 0 and a purgatory on it."""
    timer = Timer(0)
    return timer, Purgatory("test", timer, **settings)


def test_completes_at_once() -> None:
    """An operation whose condition holds is never watched."""
    timer, purgatory = made()
    operation = Waiting(tries_needed=1)
    assert purgatory.try_complete_or_watch(operation, ["a"])
    assert operation.diary == ["complete"]
    assert (purgatory.watched_count, purgatory.delayed_count, len(timer)) == (0, 0, 0)


def test_second_try_catches_what_happened_before_registration() -> None:
    """An event between the first try and the registration is not lost."""
    timer, purgatory = made()
    operation = Waiting(tries_needed=2)
    assert purgatory.try_complete_or_watch(operation, ["a", "b"])
    assert operation.diary == ["complete"]
    assert (purgatory.watched_count, purgatory.delayed_count, len(timer)) == (0, 0, 0)


def test_completes_when_its_key_is_checked() -> None:
    """Each key tries it; the one that finds its condition true completes it, everywhere."""
    timer, purgatory = made()
    operation = Waiting()
    assert not purgatory.try_complete_or_watch(operation, ["a", "b"])
    assert (purgatory.watched_count, purgatory.delayed_count) == (2, 1)
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.check_and_complete("c") == 0
    operation.may_complete = True
    assert purgatory.check_and_complete("b") == 1
    assert purgatory.check_and_complete("b") == 0
    assert purgatory.check_and_complete("a") == 0
    timer.advance(1_000)
    assert operation.diary == ["complete"]
    assert (purgatory.watched_count, purgatory.delayed_count, purgatory.key_count) == (0, 0, 0)


def test_expires() -> None:
    """When its time is over it completes, and then learns why."""
    timer, purgatory = made()
    operation = Waiting(100)
    purgatory.try_complete_or_watch(operation, ["a"])
    timer.advance(99)
    assert operation.diary == []
    timer.advance(100)
    assert operation.diary == ["complete", "expire"]
    assert operation.completed
    assert not operation.force_complete()
    assert (purgatory.watched_count, purgatory.delayed_count) == (0, 0)


def test_forced() -> None:
    """The holder of the lock may complete it, which also cancels its timeout."""
    timer, purgatory = made()
    operation = Waiting()
    purgatory.try_complete_or_watch(operation, ["a"])
    assert operation.force_complete()
    assert not operation.force_complete()
    assert not operation.pending
    timer.advance(1_000)
    assert operation.diary == ["complete"]


def test_completed_before_it_is_watched() -> None:
    """An operation that somebody forced already is neither watched nor delayed."""
    timer, purgatory = made()
    operation = Waiting()
    operation.force_complete()
    assert not purgatory.try_complete_or_watch(operation, ["a"])
    assert operation.diary == ["complete"]
    assert (purgatory.watched_count, purgatory.delayed_count, len(timer)) == (0, 0, 0)


def test_no_timeout_expires_in_the_next_advance() -> None:
    """A delay of 0 is due at once, which is not inside the call."""
    timer, purgatory = made()
    operation = Waiting(0)
    assert not purgatory.try_complete_or_watch(operation, ["a"])
    assert operation.diary == []
    timer.advance(0)
    assert operation.diary == ["complete", "expire"]


def test_key_without_operations_is_dropped() -> None:
    """A check of a key whose last operation is over forgets the key."""
    _, purgatory = made()
    operation = Waiting()
    purgatory.try_complete_or_watch(operation, ["a"])
    operation.force_complete()
    assert purgatory.key_count == 1
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.key_count == 0


def test_keys_are_purged_at_intervals() -> None:
    """After more than `purge_interval` finished operations the next check forgets their keys."""
    timer, purgatory = made(purge_interval=10)
    keeper = Waiting(60_000)
    purgatory.try_complete_or_watch(keeper, ["kept"])
    for number in range(11):
        operation = Waiting()
        purgatory.try_complete_or_watch(operation, [number])
        operation.force_complete()
    assert purgatory.key_count == 12
    timer.advance(199)
    assert purgatory.key_count == 12
    timer.advance(200)
    assert (purgatory.key_count, purgatory.watched_count) == (1, 1)


def test_no_purge_below_the_interval() -> None:
    """Ten finished operations are not more than ten."""
    timer, purgatory = made(purge_interval=10)
    keeper = Waiting(60_000)
    purgatory.try_complete_or_watch(keeper, ["kept"])
    for number in range(10):
        operation = Waiting()
        purgatory.try_complete_or_watch(operation, [number])
        operation.force_complete()
    timer.advance(1_000)
    assert purgatory.key_count == 11


def test_idle_purgatory_wakes_nobody() -> None:
    """The checks end with the last operation, and start with the next; closing ends them, too."""
    timer, purgatory = made()
    first = Waiting(50)
    purgatory.try_complete_or_watch(first, ["a"])
    timer.advance(1_000)
    assert timer.next_expiry_ms is None
    purgatory.try_complete_or_watch(Waiting(60_000), ["a"])
    assert timer.next_expiry_ms is not None
    assert len(timer) == 2
    purgatory.close()
    assert len(timer) == 1


class Failing(Waiting):
    """Raises when tried for the second time."""

    __slots__ = ()

    def try_complete(self) -> bool:
        """Fail."""
        self.tries += 1
        if self.tries == 2:
            raise RuntimeError("second try")
        return False


def test_operation_that_fails_while_it_is_watched_is_not_kept() -> None:
    """The error is the caller's, and no list keeps the operation."""
    timer, purgatory = made()
    with pytest.raises(RuntimeError, match="second try"):
        purgatory.try_complete_or_watch(Failing(), ["a", "b"])
    assert (purgatory.watched_count, purgatory.delayed_count, len(timer)) == (0, 0, 0)


def test_keys_that_fail_leave_nothing_behind() -> None:
    """An error half way through the keys takes the operation out of the lists it is in."""
    timer, purgatory = made()

    def keys() -> Iterator[str]:
        yield "a"
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        purgatory.try_complete_or_watch(Waiting(), keys())
    assert (purgatory.watched_count, len(timer)) == (0, 0)


def test_delay_out_of_range_leaves_nothing_behind() -> None:
    """The timer's error is the caller's, and nothing holds the operation."""
    timer, purgatory = made()
    with pytest.raises(ValueError, match="beyond the timer's range"):
        purgatory.try_complete_or_watch(Waiting(2**63), ["a"])
    assert (purgatory.watched_count, purgatory.delayed_count, len(timer)) == (0, 0, 0)


def test_no_key_is_rejected() -> None:
    """An operation that no event can wake is not watched."""
    timer, purgatory = made()
    with pytest.raises(ValueError, match="at least one key"):
        purgatory.try_complete_or_watch(Waiting(), [])
    assert len(timer) == 0


def test_completed_while_the_keys_are_made() -> None:
    """An operation that the keys' iterator completes is held nowhere."""
    timer, purgatory = made()
    operation = Waiting()

    def keys() -> Iterator[str]:
        yield "a"
        operation.force_complete()
        yield "b"
        yield "c"

    assert not purgatory.try_complete_or_watch(operation, keys())
    assert operation.diary == ["complete"]
    assert (purgatory.watched_count, purgatory.delayed_count, len(timer)) == (0, 0, 0)


def test_purge_interval_out_of_range_is_rejected() -> None:
    """The error names the setting."""
    with pytest.raises(ValueError, match="purge_interval"):
        Purgatory("test", Timer(0), purge_interval=0)
