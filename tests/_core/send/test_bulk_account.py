"""A bulk send's account: failed rows, rejected rows, and when it is done."""

from kprod._core.outcome.batch_result import BatchResult
from kprod._core.send.bulk_account import BulkAccount
from kprod._core.send.bulk_share import BatchShare
from kprod.errors import DeliveryTimeout, KprodError


def test_errors_of_single_records_count_alone() -> None:
    """Errors of records in a batch whose other records have none."""
    account = BulkAccount()
    result = BatchResult("t", 3)
    share = BatchShare(account, result)
    share.watch()
    for index in range(5):
        share.note(index, index)
    account.seal()
    error = KprodError("bad")
    result.complete(10, record_errors={1: error, 9: error})
    assert account.failures() == [(1, error)]
    assert account.first_failure() == (1, error)
    assert account.delivered()[3][0] == 4
    assert account.batch_errors() == []


def test_rejected_records_come_between() -> None:
    """Failures are in the order of the call, wherever they failed."""
    account = BulkAccount()
    result = BatchResult("t", 0)
    share = BatchShare(account, result)
    share.watch()
    account.reject(ValueError("first"))
    share.note(0, 1)
    account.record_count += 1
    account.reject(ValueError("third"))
    account.seal()
    assert not account.done
    result.complete(error=DeliveryTimeout("late"))
    assert [(place, type(error).__name__) for place, error in account.failures()] == [
        (0, "ValueError"),
        (1, "DeliveryTimeout"),
        (2, "ValueError"),
    ]
    assert account.first_failure()[0] == 0


def test_a_batch_that_took_nothing_is_not_waited_for() -> None:
    """It may never be settled."""
    account = BulkAccount()
    BatchShare(account, BatchResult("t", 0)).watch()
    account.seal()
    assert account.done
