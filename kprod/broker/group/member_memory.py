"""The memory of the metadata that the members of all groups send in their joins.

A join is held until its group's phase ends, and a new member's up to five minutes after its client
is gone. Other state of groups is in the log, whose size has a limit of its own.

Thread-safety: the broker's thread.
"""


class MemberMemory:
    """Bytes of all members' metadata.

    Attributes:
        limit_bytes: Their limit.
        used_bytes: Their sum.
    """

    __slots__ = ("limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        """Start without members.

        Args:
            limit_bytes: See the attribute.
        """
        self.limit_bytes: int = limit_bytes
        self.used_bytes: int = 0

    def has_room(self, size_bytes: int) -> bool:
        """Whether the members may say this much more; always true if they say less."""
        return size_bytes <= 0 or self.used_bytes + size_bytes <= self.limit_bytes
