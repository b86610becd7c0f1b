"""What a kept future keeps."""

import gc
import weakref

from kprod._core.future import BatchResult
from kprod.errors import DeliveryTimeout, KprodError
from tests.producer.bench import TOPIC


class _Kept:
    """Something large that a function had at hand."""


def _raised() -> tuple[KprodError, "weakref.ref[_Kept]"]:
    """An error with a cause, whose frames hold something."""
    kept = _Kept()
    seen = weakref.ref(kept)
    try:
        try:
            raise ValueError("in a codec")
        except ValueError as cause:
            raise DeliveryTimeout("late") from cause
    except DeliveryTimeout as error:
        return error, seen


def test_a_kept_future_keeps_no_frames() -> None:
    """Neither of the error that ended its batch, nor of one record, nor of their causes."""
    error, seen = _raised()
    record_error, seen_by_record = _raised()
    results = [BatchResult(TOPIC, 0), BatchResult(TOPIC, 0)]
    results[0].complete(error=error)
    results[1].complete(record_errors={0: record_error})
    gc.collect()
    assert seen() is None
    assert seen_by_record() is None
    assert isinstance(error.__cause__, ValueError)
