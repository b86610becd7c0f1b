"""Armed faults of logins and of encryption, counted down.

Thread-safety: the broker's thread.
"""

from collections import deque


class SecurityFaults:
    """The armed faults of a cluster.

    Attributes:
        refusals: Texts with which the next logins are refused, one each.
        handshake_cuts: After how many bytes of the broker's the next connections with TLS are
            closed, one each.
        tampered_count: How many pieces of ciphertext are changed before they leave.
    """

    __slots__ = ("handshake_cuts", "refusals", "tampered_count")

    def __init__(self) -> None:
        """Arm nothing."""
        self.refusals: deque[str] = deque()
        self.handshake_cuts: deque[int] = deque()
        self.tampered_count: int = 0

    def clear(self) -> None:
        """Disarm everything."""
        self.refusals.clear()
        self.handshake_cuts.clear()
        self.tampered_count = 0

    def take_refusal(self) -> str | None:
        """Return the text for a login that is to be refused; None for one that is not."""
        return self.refusals.popleft() if self.refusals else None

    def take_cut(self) -> int | None:
        """Return after how many bytes a new connection is to be closed; None for never."""
        return self.handshake_cuts.popleft() if self.handshake_cuts else None

    def take_tampering(self) -> bool:
        """Whether ciphertext that is about to leave is to be changed."""
        if not self.tampered_count:
            return False
        self.tampered_count -= 1
        return True
