"""Reports of a stream's writes, as its micro-batches are committed.

Spark takes nothing of a Python data source into the progress of a streaming query. This listener
reads the file of `report.path` when a query makes progress, so that an application hears of both
together.

Thread-safety: Spark calls listeners on one thread of the driver, not the application's own.
"""

import os
from collections.abc import Callable

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from kprod.spark.reports import ReportTail
from kprod.spark.task_messages import WriteReport

__all__ = ["WriteListener"]


class WriteListener(StreamingQueryListener):
    """Hands each new report to a function: `spark.streams.addListener(WriteListener(…))`.

    Args:
        path: Path in the option `report.path`; existing reports are ignored.
        on_write: Called with each report, on Spark's thread; Spark logs its exceptions.
    """

    def __init__(
        self, path: str | os.PathLike[str], on_write: Callable[[WriteReport], object]
    ) -> None:
        self._tail = ReportTail(path)
        self._tail.new()
        self._on_write = on_write

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Do nothing; nothing is written yet.

        Args:
            event: The event from Spark.
        """

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: ARG002, N802 - Spark's names
        """Pass on the committed write's report.

        Args:
            event: The event from Spark.
        """
        self._hand_over()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's names
        """Do nothing; nothing is written.

        Args:
            event: The event from Spark.
        """

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: ARG002, N802 - Spark's names
        """Pass on the last committed write's report.

        Args:
            event: The event from Spark.
        """
        self._hand_over()

    def _hand_over(self) -> None:
        for report in self._tail.new():
            self._on_write(report)
