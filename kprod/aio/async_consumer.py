"""The consumer for asyncio, as an application sees it.

`AsyncConsumer` has no fetching logic: it is the engine of `Consumer`, with another way to wait
(`kprod.aio.async_reading`). A subclass may use any attribute name except `_kprod`.

Thread-safety: one event loop at a time reads; the other methods as documented.
Source: aiokafka 0.14 for the names.
"""

import warnings
from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, Unpack

from kprod.aio.async_consumer_engine import AsyncConsumerEngine
from kprod.aio.async_positions import AsyncPositions, engine_of_async
from kprod.aio.async_progress import AsyncProgress
from kprod.config import given_settings

if TYPE_CHECKING:
    import pyarrow as pa

    from kprod.config.consumer_settings import ConsumerSettings
    from kprod.record.blocks import ConsumerRecord


class AsyncConsumer(AsyncPositions, AsyncProgress):
    """Reads records from Kafka in asyncio.

    An I/O thread fetches ahead, as for `Consumer`, also while the loop is busy. Records are decoded
    in the loop's thread, by the task that reads them; deserializers run there and must not block.

    Example:
        async with AsyncConsumer("orders", bootstrap_servers="localhost:9092") as consumer:
            async for record in consumer:
                print(record.partition, record.offset, record.value)

    Args:
        topics: Topics to subscribe to at the start; without any, call `assign` or `subscribe`.
        settings: Settings by their Kafka names, such as `{"fetch.max.bytes": 1_000_000}`.
        more_settings: Settings by their Python names, such as `fetch_max_bytes=1_000_000`.

    Raises:
        ConfigError: A setting is unknown, malformed or out of bounds.
        TypeError: A topic is not a string.
        ValueError: A topic name is invalid.

    Thread-safety: one task at a time may poll or iterate; event loops may take turns.
    """

    def __init__(
        self,
        *topics: str,
        settings: Mapping[str, object] | None = None,
        **more_settings: "Unpack[ConsumerSettings]",
    ) -> None:
        if self._kprod is not None:
            raise RuntimeError("AsyncConsumer.__init__ was called twice; make another one")
        if topics and isinstance(topics[0], Mapping) and settings is None:
            settings, topics = topics[0], topics[1:]
        given = given_settings("AsyncConsumer", settings, more_settings)
        del settings, more_settings  # as in Consumer
        self._kprod = AsyncConsumerEngine(topics, given)

    @property
    def client_id(self) -> str:
        """The name that brokers see; before `start` what the settings say, empty if nothing."""
        return engine_of_async(self).client_id

    async def start(self) -> None:
        """Start; no effect on a started consumer. Does not wait for brokers: reads do.

        Raises:
            ClosedError: It was closed.
            ConfigError: A certificate file or text cannot be used, or an extra is not installed.
        """
        engine_of_async(self).start()

    async def poll(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - as Consumer.poll
        max_records: int | None = None,
    ) -> "list[ConsumerRecord]":
        """Return fetched records, as soon as there are any.

        Each call marks the records of the previous call as consumed. A cancelled call has taken
        nothing: the next one returns the records.

        Args:
            timeout: Seconds to wait for the first record; 0 does not wait, None waits without
                limit.
            max_records: Maximum number of records; None for `max_poll_records`.

        Returns:
            The records, ascending for each partition; empty if none arrived in time.

        Raises:
            ConcurrentPoll: Another task is reading or iterating.
            ClosedError: The consumer is not open, or was closed during the call.
            KprodError: As for `Consumer.poll`.
            ValueError: An argument is out of bounds.
        """
        own = engine_of_async(self)
        return await own.reading.read(own.engine.reading.records_call(max_records), timeout)

    async def poll_arrow(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - as Consumer.poll_arrow
        max_rows: int = 100_000,
        *,
        max_bytes: int = 64 * 1024 * 1024,
        leader_epoch: bool = False,
        timestamp_type: bool = False,
    ) -> "pa.RecordBatch":
        """Return fetched records as columns; see `Consumer.poll_arrow`. Otherwise like `poll`.

        Args:
            timeout: Seconds to wait for the first record; 0 does not wait, None waits without
                limit.
            max_rows: Maximum number of rows.
            max_bytes: No further row is added once keys, values and headers have this many bytes.
            leader_epoch: Whether to add a column with the leader epoch.
            timestamp_type: Whether to add a column with the timestamp type.

        Returns:
            A record batch of Arrow; without rows if no record arrived in time.

        Raises:
            ImportError: pyarrow is not installed; the text says how to install it.
            KprodError: As for `poll`.
            ValueError: An argument is out of bounds.
        """
        from kprod.consumer.arrow import arrow_call  # noqa: PLC0415 - an extra, if it is asked for

        own = engine_of_async(self)
        call = arrow_call(
            own.engine,
            max_rows=max_rows,
            max_bytes=max_bytes,
            leader_epoch=leader_epoch,
            timestamp_type=timestamp_type,
        )
        return await own.reading.read(call, timeout)

    def __aiter__(self) -> "AsyncGenerator[ConsumerRecord, None]":
        """Iterate over records as they arrive, with `async for`.

        Asking for the next record marks the previous one as consumed. Leaving the loop, or a
        cancellation, loses nothing: another loop, or `poll`, continues after the last record.

        Returns:
            An iterator without end; with `consumer_timeout_ms`, it ends after that time without a
            record. Errors are raised as by `poll`.
        """
        return engine_of_async(self).reading.records()

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return the consumer's metrics, under the names of Kafka's consumer.

        Returns:
            Values by group and name; an average without samples is NaN. Nothing before `start`.

        Thread-safety: any thread, also after `close`.
        """
        return engine_of_async(self).metrics()

    async def close(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - as Consumer
        *,
        leave: bool | None = None,
    ) -> None:
        """Stop the I/O thread and close all connections; a `poll` in progress raises `ClosedError`.

        Cancelled, it continues closing in the background.

        Args:
            timeout: Seconds to wait for the end; None for no limit. The shutdown itself continues.
            leave: Whether to leave the group; None: all but static members leave. See
                `Consumer.close`.

        Raises:
            TypeError: `leave` is something else.
            ValueError: The timeout is negative or not a number.

        Thread-safety: any event loop. Idempotent.
        """
        await engine_of_async(self).close(timeout, leave=leave)

    def __repr__(self) -> str:
        name = type(self).__name__
        engine = self._kprod
        if engine is None:
            return f"<{name}, not made: its __init__ has not run to the end>"
        return engine.described_as(name)

    def __del__(self) -> None:
        engine = self._kprod
        if engine is not None and engine.is_unclosed:
            # Otherwise its thread would continue to fetch records that nobody can read.
            engine.close_soon()
            warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an AsyncConsumer cannot be pickled or copied, since it owns a thread and connections;"
            " pass its settings on, and make an AsyncConsumer where it is used"
        )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await engine_of_async(self).close(None, is_failing=kind is not None)
