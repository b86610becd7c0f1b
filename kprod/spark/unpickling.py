"""The pickle of a writer, whose loading without kprod raises an error with the remedy.

A writer is loaded by its class's name, so an executor without kprod would only say that there is
no such module. Therefore the function that loads it travels by its code: cloudpickle, which Spark
uses, does so with a function that is defined inside another. It may use nothing but what every
Python with PySpark has.

Thread-safety: pure functions.
"""

from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle

__all__ = ["reduced"]


def reduced(writer: object) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
    """Return what `__reduce__` of a writer returns.

    Args:
        writer: Has its attributes in `__dict__`.

    Returns:
        A function that loads it, or raises ModuleNotFoundError with the host, its interpreter and
        the remedy; and its argument.
    """
    pickled: bytes = cloudpickle.dumps((type(writer), vars(writer)))  # type: ignore[no-untyped-call]
    return _loader(), (pickled,)


def _loader() -> Callable[[bytes], Any]:
    def load(pickled: bytes) -> Any:
        import socket  # noqa: PLC0415 - its module's own imports do not travel
        import sys  # noqa: PLC0415

        try:
            import kprod  # noqa: F401, PLC0415
        except ModuleNotFoundError as error:
            if error.name != "kprod":
                raise
            text = (
                f"kprod is not installed for this worker: {sys.executable}, Python"
                f" {sys.version.split()[0]}, on {socket.gethostname()}. Install kprod[spark] there,"
                " or set PYSPARK_PYTHON to an interpreter that has it on every executor; the page"
                ' on Spark has the ways under "On a cluster"'
            )
            raise ModuleNotFoundError(text, name="kprod") from None
        from pyspark.serializers import CPickleSerializer  # noqa: PLC0415

        serializer: Any = CPickleSerializer()
        kind, state = serializer.loads(pickled)  # Spark's own way to its workers
        writer = kind.__new__(kind)
        vars(writer).update(state)
        return writer

    return load
