# cython: annotation_typing=False, nonecheck=True
"""The deadline of a request: a single timer task that refers to its request.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

One object is allocated for each request; a task, a closure and a bound method would be three.

Thread-safety: the client's thread.
"""

from collections.abc import Callable

from kprod._core.timer.timer_task import TimerTask
from kprod.network.in_flight import InFlightRequest


class RequestTask(TimerTask):
    """Calls a function with a request that has timed out."""

    def __init__(
        self, request: InFlightRequest, on_due: Callable[[InFlightRequest], object]
    ) -> None:
        self._request = request
        self._on_due = on_due

    def run(self) -> object:
        """Call the function."""
        return self._on_due(self._request)
