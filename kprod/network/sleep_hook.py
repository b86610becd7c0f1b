# cython: annotation_typing=False, nonecheck=True
"""What a client calls before and after it sleeps, so that another thread may use it meanwhile.

Thread-safety: the client's thread.
"""


class SleepHook:
    """Called around each sleep of a `NetworkClient`; to be subclassed.

    Attributes:
        sleep_max_ms: Longest sleep that the hook allows.
    """

    def __init__(self, sleep_max_ms: int) -> None:
        """Make a hook; the client is awake.

        Args:
            sleep_max_ms: See the class.
        """
        self.sleep_max_ms = sleep_max_ms

    def before_sleep(self, until_ms: int) -> None:
        """Let other threads use the client, whose thread is about to sleep.

        Args:
            until_ms: When the sleep ends at the latest, monotonic. The client notices in time
                whatever is due by then.
        """
        raise NotImplementedError

    def after_sleep(self) -> None:
        """Wait until no other thread uses the client any more; its own thread is awake."""
        raise NotImplementedError

    def close(self) -> None:
        """Give up all descriptors; nothing happens the second time."""
        raise NotImplementedError
