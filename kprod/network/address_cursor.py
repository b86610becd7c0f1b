"""The resolved addresses of one broker, and which one to try next.

A name may resolve to several addresses (`use_all_dns_ips`). They are tried in the resolver's order.
When all have failed, or an established connection is lost, the name is resolved again, since a
broker that moved keeps its name. The lost address is put at the end of the new list.

Thread-safety: the client's thread.
Source: KIP-302, KAFKA-12193; Kafka's ClusterConnectionStates (clients 4.3.1).
"""

import socket
from collections.abc import Sequence
from typing import NamedTuple

from kprod.peer_text import peer_text

ADDRESSES_MAX = 64  # tried for one name; more would only delay the failure


class SocketAddress(NamedTuple):
    """An address to connect a socket to.

    Attributes:
        family: `socket.AF_INET`, `AF_INET6`, or the family of a test's sockets.
        host: Numeric address.
        port: 1 to 65,535.
    """

    family: int
    host: str
    port: int

    def __str__(self) -> str:
        """Return `host:port`, with an IPv6 host in brackets."""
        host = peer_text(self.host)  # the scope of an IPv6 address may be any text
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def literal_address(host: str, port: int) -> SocketAddress | None:
    """Parse a numeric host, which needs no resolver.

    Args:
        host: A name or a numeric address.
        port: 1 to 65,535.

    Returns:
        The address; None for a name.
    """
    import ipaddress  # noqa: PLC0415 - nothing needs it before a connection

    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        return None
    family = socket.AF_INET6 if number.version == 6 else socket.AF_INET  # noqa: PLR2004 - IPv6
    return SocketAddress(family, host, port)


class AddressCursor:
    """Iterates over the addresses of one name."""

    __slots__ = ("_addresses", "_index", "_lost")

    def __init__(self) -> None:
        """Start without addresses."""
        self._addresses: tuple[SocketAddress, ...] = ()
        self._index = 0
        self._lost: SocketAddress | None = None

    @property
    def current(self) -> SocketAddress | None:
        """The address to try; None if the name must be resolved."""
        return self._addresses[self._index] if self._addresses else None

    def accept(self, addresses: Sequence[SocketAddress]) -> None:
        """Set the resolved addresses.

        Args:
            addresses: Addresses in order of preference; duplicates are skipped.
        """
        distinct = list(dict.fromkeys(addresses))[:ADDRESSES_MAX]
        if self._lost in distinct:
            distinct.remove(self._lost)
            distinct.append(self._lost)
        self._addresses, self._index, self._lost = tuple(distinct), 0, None

    def advance(self) -> bool:
        """Move to the next address.

        Returns:
            True if there is one; if not, the name must be resolved again.
        """
        self._index += 1
        if self._index < len(self._addresses):
            return True
        self._addresses, self._index = (), 0
        return False

    def forget(self) -> None:
        """Drop all addresses, because a connection to the current one was lost."""
        self._lost = self.current
        self._addresses, self._index = (), 0
