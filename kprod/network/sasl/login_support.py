"""What logins need of their client.

Thread-safety: as its members.
"""

import random
from collections.abc import Callable
from typing import NamedTuple

from kprod.clock import Clock
from kprod.metrics.state_log import StateLog
from kprod.network.sasl.login_thread import LoginJobs
from kprod.timer.timer import Timer


class LoginSupport(NamedTuple):
    """Of one client.

    Attributes:
        jobs: Runs what may block.
        timer: The client's.
        clock: Monotonic and wall clock.
        rng: Random numbers for jitter.
        state_log: Told of tokens.
        is_connected: Whether the client has a connection.
    """

    jobs: LoginJobs
    timer: Timer
    clock: Clock
    rng: random.Random
    state_log: StateLog
    is_connected: Callable[[], bool]
