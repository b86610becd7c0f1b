# cython: annotation_typing=False, nonecheck=True
"""A hook before and after a client's sleep, which lets another thread use the client meanwhile.

Thread-safety: the client's thread.
"""


class SleepHook:
    """Called around each sleep of a `NetworkClient`; an abstract class.

    Attributes:
        sleep_max_ms: Maximum sleep that the hook allows.
    """

    def __init__(self, sleep_max_ms: int) -> None:
        """Create a hook; the client is awake.

        Args:
            sleep_max_ms: Maximum sleep.
        """
        self.sleep_max_ms = sleep_max_ms

    def before_sleep(self, until_ms: int) -> None:
        """Let other threads use the client, whose thread is about to sleep.

        Args:
            until_ms: Latest end of the sleep, monotonic; the client then handles everything that is
                due.
        """
        raise NotImplementedError

    def after_sleep(self) -> None:
        """Wait until no other thread uses the client; its own thread is awake."""
        raise NotImplementedError

    def close(self) -> None:
        """Close all descriptors; idempotent."""
        raise NotImplementedError
