"""The parts of a client that its logins use.

Thread-safety: as each part says.
"""

import random
from collections.abc import Callable
from typing import NamedTuple

from kprod.clock import Clock
from kprod.metrics.state_log import StateLog
from kprod.network.sasl.login_thread import LoginJobs
from kprod.timer.timer import Timer


class LoginSupport(NamedTuple):
    """The parts of one client that its logins use.

    Attributes:
        jobs: Runs functions that may block.
        timer: The client's timer.
        clock: Monotonic and wall clock.
        rng: Random numbers for jitter.
        state_log: Logs changes of tokens.
        is_connected: Whether the client has a connection.
    """

    jobs: LoginJobs
    timer: Timer
    clock: Clock
    rng: random.Random
    state_log: StateLog
    is_connected: Callable[[], bool]
