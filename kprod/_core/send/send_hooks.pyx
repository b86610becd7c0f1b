# cython: language_level=3
# cython: nonecheck=True, auto_pickle=False
"""The steps that the compiled send path leaves to Python: those that block, decide or fail.

They include the calls of the application's interceptors, serializers and partitioner.

Thread-safety: hooks run on the thread that sends; any number of threads may call them.
"""


def not_initialised():
    """Create the error of a producer whose `__init__` has not run."""
    return RuntimeError(
        "Producer.__init__ was not called, or it failed; a subclass calls"
        " super().__init__(...) before anything else"
    )


cdef class SendHooks:
    """The hooks that a `SendPath` calls; a subclass in Python implements them.

    `timeout_ms` may be <= 0; the hook then does not wait.
    """

    def open_topic(self, topic, timeout_ms):
        """Wait until the topic's partitions are known, and return its `TopicRoutes`."""
        raise NotImplementedError

    def await_partition(self, routes, partition, timeout_ms):
        """Wait until the topic has this partition, or raise."""
        raise NotImplementedError

    def make_batch(self, queue, chain):
        """Create a batch for the partition, with a new result and a builder that fills `chain`."""
        raise NotImplementedError

    def wait_for_memory(self, waiter, timeout_ms):
        """Wait until the waiter is satisfied, or raise."""
        raise NotImplementedError

    def roll_sticky(self, routes):
        """Choose another sticky partition, since the batch of the current one is full."""
        raise NotImplementedError

    def choose_partition(self, routes, key, value):
        """Call the application's partitioner."""
        raise NotImplementedError

    def serialize(self, topic, key, value, headers):
        """Run the serializers; return key, value, headers."""
        raise NotImplementedError

    def intercept(self, record, on_delivery):
        """Pass a record through the interceptors.

        Args:
            record: Topic, value, key, headers, partition, timestamp_ms.
            on_delivery: The callback argument of `send`.

        Returns:
            The seven values, as the interceptors left them.
        """
        raise NotImplementedError

    def too_large_text(self, topic, size_bytes):
        """Return the reason why a record of this size is rejected."""
        raise NotImplementedError

    def note_failed(self, topic, record_count):
        """Count records that were accepted and then failed in the calling thread."""
        raise NotImplementedError

    def check_signals(self):
        """Do nothing: entering a Python function lets signal handlers and other threads run."""
        raise NotImplementedError
