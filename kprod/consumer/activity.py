# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Signs that the application asks for records.

The polling thread leaves them, and the I/O thread compares them at each heartbeat: so the polling
thread takes no lock and reads no clock for it.

Thread-safety: as documented for each field.
Source: KIP-62 for the purpose.
"""

from kprod.consumer.hand_over import HandOver


class Activity:
    """The signs of one consumer's application.

    Attributes:
        count: Number of calls that asked for records, or said that work continues. Any thread adds
            to it.
        is_waiting: Whether the polling thread waits for records. Set by the polling thread.
    """

    def __init__(self) -> None:
        """Start without a sign."""
        self.count: int = 0
        self.is_waiting: bool = False
        self._seen: tuple[int, int] | None = None
        self._since_ms = 0

    def idle_ms(self, hand_over: HandOver, now_ms: int) -> int:
        """Return for how long there was no sign; the I/O thread.

        Args:
            hand_over: Knows the record that an iteration has returned last.
            now_ms: Monotonic time.

        Returns:
            Milliseconds between the calls of this method without a sign in between.
        """
        chunk = hand_over.chunk
        in_hand = None if chunk is None else chunk.in_hand
        seen = self.count, -1 if in_hand is None else in_hand.offset
        if self.is_waiting or seen != self._seen:
            self._seen, self._since_ms = seen, now_ms
        return now_ms - self._since_ms
