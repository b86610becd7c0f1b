"""Limits how many rows may be left out before the write is stopped.

A task judges its own rows while it runs, and the driver the sum of all tasks before it commits.

Thread-safety: immutable.
"""

from dataclasses import dataclass

from kprod.spark.task_failure import TooManyBadRows
from kprod.wording import counted

__all__ = ["RATIO_ROWS_MIN", "BadRowLimits"]

RATIO_ROWS_MIN = 1_000  # with fewer rows, one bad row is too large a share to mean anything


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRowLimits:
    """The limits of one write.

    Attributes:
        max_bad_rows: Maximum number of rows that may be left out; None for no limit.
        max_bad_ratio: Greatest share of the rows, 0 to 1; None is no limit. It is judged from
            `RATIO_ROWS_MIN` rows on.
    """

    max_bad_rows: int | None = None
    max_bad_ratio: float | None = None

    def check(self, bad_count: int, row_count: int, faults: str) -> None:
        """Stop where there are too many bad rows.

        Args:
            bad_count: Rows left out so far.
            row_count: Rows read so far, those among them.
            faults: Their faults, for the error's text.

        Raises:
            TooManyBadRows: A limit is exceeded.
        """
        if self.max_bad_rows is not None and bad_count > self.max_bad_rows:
            limit = f"max_bad_rows={self.max_bad_rows}"
        elif self._exceeds_ratio(bad_count, row_count):
            limit = f"max_bad_ratio={self.max_bad_ratio}"
        else:
            return
        raise TooManyBadRows(
            f"{bad_count} of {counted(row_count, 'row')} can never be records, and {limit}:"
            f" {faults}; correct the query, or raise the limit"
        )

    def _exceeds_ratio(self, bad_count: int, row_count: int) -> bool:
        if self.max_bad_ratio is None or row_count < RATIO_ROWS_MIN:
            return False
        return bad_count > self.max_bad_ratio * row_count
