# cython: language_level=3
# cython: nonecheck=True, auto_pickle=False
"""What the compiled send path leaves to Python: whatever blocks, decides, fails or is the user's.

Thread-safety: each is called by whichever thread sends.
"""


def not_initialised():
    """Make the error of a producer whose `__init__` has not run."""
    return RuntimeError(
        "Producer.__init__ was not called, or it failed; a subclass calls"
        " super().__init__(...) before anything else"
    )


cdef class SendHooks:
    """What a `SendPath` asks for; a subclass in Python answers.

    Arguments that end in `timeout_ms` may be <= 0: then nothing waits.
    """

    def open_topic(self, topic, timeout_ms):
        """Wait until the topic's partitions are known, and return its `TopicRoutes`."""
        raise NotImplementedError

    def await_partition(self, routes, partition, timeout_ms):
        """Wait until the topic has this partition, or raise."""
        raise NotImplementedError

    def make_batch(self, queue, chain):
        """Make a batch for the partition, with a builder on this chain and a result."""
        raise NotImplementedError

    def wait_for_memory(self, waiter, timeout_ms):
        """Wait until the waiter is satisfied, or raise."""
        raise NotImplementedError

    def roll_sticky(self, routes):
        """Choose another sticky partition, since the present one's batch is full."""
        raise NotImplementedError

    def choose_partition(self, routes, key, value):
        """Ask the user's partitioner."""
        raise NotImplementedError

    def serialize(self, topic, key, value, headers):
        """Run serializers; returns key, value, headers."""
        raise NotImplementedError

    def intercept(self, record, on_delivery):
        """Show a record to the interceptors.

        Args:
            record: Topic, value, key, headers, partition, timestamp_ms.
            on_delivery: The callback that `send` was given.

        Returns:
            The same seven, as they shall be.
        """
        raise NotImplementedError

    def too_large_text(self, topic, size_bytes):
        """Why a record of this size is refused."""
        raise NotImplementedError

    def note_failed(self, topic, record_count):
        """Count records that were taken, and failed in this thread."""
        raise NotImplementedError

    def check_signals(self):
        """Do nothing, in Python: entering it is when signal handlers and other threads run."""
        raise NotImplementedError
