"""The base of the consumer's public classes: it holds the engine, and nothing else.

Thread-safety: any thread.
"""

from kprod.consumer.consumer_engine import ConsumerEngine


class ConsumerFace:
    """A public object of a consumer's engine; `Consumer` has all of its parts."""

    _kprod: ConsumerEngine | None = None


def engine_of(consumer: ConsumerFace) -> ConsumerEngine:
    """Return the engine of a consumer.

    Args:
        consumer: A `Consumer` or an instance of a subclass.

    Returns:
        Its engine.

    Raises:
        RuntimeError: `Consumer.__init__` has not run, since a subclass does not call it.
    """
    engine = consumer._kprod  # noqa: SLF001 - the one access
    if engine is None:
        raise RuntimeError(
            f"{type(consumer).__name__} was not made: its __init__ must call Consumer.__init__"
        )
    return engine
