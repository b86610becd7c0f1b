"""Why addresses of the cluster cannot be used: the newest failure of each.

Thread-safety: one thread notes; any thread reads `by_address`, which is replaced as a whole.
"""

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

KEPT_MAX = 64  # enough to explain; a hostile list of brokers must not grow it
SHOWN_MAX = 8  # more than a bootstrap list has; an error's text must not grow with them


class ConnectionFailures:
    """The failures of one client's connections.

    Attributes:
        by_address: Reasons by `host:port`, newest last; an address that works has none.
    """

    __slots__ = ("by_address",)

    def __init__(self) -> None:
        """Make a collection without failures."""
        self.by_address: Mapping[str, str] = MappingProxyType({})

    def note(self, address: str, reason: str | None) -> None:
        """Remember why an address cannot be used, or that it can.

        Args:
            address: `host:port`.
            reason: The reason; None once the address works.
        """
        errors = dict(self.by_address)
        errors.pop(address, None)
        if reason is not None:
            errors[address] = reason
        while len(errors) > KEPT_MAX:
            del errors[next(iter(errors))]
        self.by_address = MappingProxyType(errors)

    def texts(self) -> list[str]:
        """Return the newest failures, one short text each, and how many there are besides."""
        failed = list(self.by_address.items())
        parts = [f"{address}: {reason}" for address, reason in failed[-SHOWN_MAX:]]
        if len(failed) > SHOWN_MAX:
            parts.append(f"and {len(failed) - SHOWN_MAX} other addresses")
        return parts
