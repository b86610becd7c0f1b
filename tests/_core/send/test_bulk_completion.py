"""The end of a bulk send: the calls that are made at it."""

from kprod._core.send.bulk_completion import BulkCompletion


def test_a_call_after_the_end_is_rejected() -> None:
    """Its maker makes it instead."""
    completion = BulkCompletion()
    calls: list[int] = []
    assert completion.add_done_call(lambda: calls.append(1))
    completion.seal()
    assert calls == [1]
    assert not completion.add_done_call(lambda: calls.append(2))
    assert calls == [1]
