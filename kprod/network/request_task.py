# cython: annotation_typing=False, nonecheck=True
"""A request's deadline: one task that knows its request.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

There is one for each request; a task, a closure and a bound method would be three objects.

Thread-safety: the client's.
"""

from collections.abc import Callable

from kprod._core.timer.timer_task import TimerTask
from kprod.network.in_flight import InFlightRequest


class RequestTask(TimerTask):
    """Calls a step with a request that was not answered in time."""

    def __init__(
        self, request: InFlightRequest, on_due: Callable[[InFlightRequest], object]
    ) -> None:
        self._request = request
        self._on_due = on_due

    def run(self) -> object:
        """Call the step."""
        return self._on_due(self._request)
