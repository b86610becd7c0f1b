"""Why addresses of the cluster cannot be used: the newest failure of each.

Thread-safety: one thread notes; any thread reads `by_address`, which is replaced as a whole.
"""

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kprod.errors import KprodError

KEPT_MAX = 64  # enough to explain; a hostile list of brokers must not grow it
SHOWN_MAX = 8  # more than a bootstrap list has; an error's text must not grow with them


class ConnectionFailures:
    """The failures of one client's connections.

    Attributes:
        by_address: Reasons by `host:port`, newest last; an address that works has none.
    """

    __slots__ = ("_rejections", "by_address")

    def __init__(self) -> None:
        """Make a collection without failures."""
        self.by_address: Mapping[str, str] = MappingProxyType({})
        self._rejections: Mapping[str, KprodError] = MappingProxyType({})

    def note(self, address: str, reason: str | None, rejection: "KprodError | None" = None) -> None:
        """Remember why an address cannot be used, or that it can.

        Args:
            address: `host:port`.
            reason: The reason; None once the address works.
            rejection: The error, if the login was rejected or a certificate is not accepted.
        """
        rejections = {key: it for key, it in self._rejections.items() if key != address}
        if rejection is not None:
            rejections[address] = rejection
        errors = dict(self.by_address)
        errors.pop(address, None)
        if reason is not None:
            errors[address] = reason
        while len(errors) > KEPT_MAX:
            del errors[next(iter(errors))]
        self._rejections = MappingProxyType(
            {key: it for key, it in rejections.items() if key in errors}
        )
        self.by_address = MappingProxyType(errors)

    def rejection(self, address: str | None) -> "KprodError | None":
        """Return the error of a rejected login, or of a certificate that is not accepted.

        Args:
            address: `host:port`; None for any address, the newest first.

        Returns:
            The error; None if the latest attempt failed for another reason, or did not fail.
        """
        if address is not None:
            return self._rejections.get(address)
        newest = next(reversed(dict(self._rejections)), None)
        return None if newest is None else self._rejections[newest]

    def texts(self) -> list[str]:
        """Return the newest failures, one short text each, and how many there are besides."""
        failed = list(self.by_address.items())
        parts = [f"{address}: {reason}" for address, reason in failed[-SHOWN_MAX:]]
        if len(failed) > SHOWN_MAX:
            parts.append(f"and {len(failed) - SHOWN_MAX} other addresses")
        return parts
