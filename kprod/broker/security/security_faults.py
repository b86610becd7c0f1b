"""Injected faults of logins and TLS, counted down.

Thread-safety: the broker's thread.
"""

from collections import deque


class SecurityFaults:
    """The armed faults of a cluster.

    Attributes:
        rejections: Error texts for the next logins, one each.
        handshake_cuts: Number of the broker's bytes after which each of the next TLS connections is
            cut.
        tampered_count: Number of TLS records to modify before they are sent.
    """

    __slots__ = ("handshake_cuts", "rejections", "tampered_count")

    def __init__(self) -> None:
        """Start with no faults."""
        self.rejections: deque[str] = deque()
        self.handshake_cuts: deque[int] = deque()
        self.tampered_count: int = 0

    def clear(self) -> None:
        """Remove all faults."""
        self.rejections.clear()
        self.handshake_cuts.clear()
        self.tampered_count = 0

    def take_rejection(self) -> str | None:
        """Return the error text for a login that must fail; None if it need not."""
        return self.rejections.popleft() if self.rejections else None

    def take_cut(self) -> int | None:
        """Return after how many bytes a new connection must be closed; None for never."""
        return self.handshake_cuts.popleft() if self.handshake_cuts else None

    def take_tampering(self) -> bool:
        """Whether the next ciphertext must be modified."""
        if not self.tampered_count:
            return False
        self.tampered_count -= 1
        return True
