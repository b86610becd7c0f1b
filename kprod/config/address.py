"""Converts the `host:port` texts of `bootstrap_servers` into checked addresses.

No name is resolved here; that takes time and belongs to the network.

Thread-safety: pure functions.
Source: Kafka's ClientUtils.parseAndValidateAddresses (clients 4.3.1) for the accepted forms.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kprod.config.quoting import shown
from kprod.errors import ConfigError

PORT_MAX = 65_535
HOST_LENGTH_MAX = 253  # RFC 1035: 255 octets on the wire, 253 as text
_ADDRESSES_SHOWN_MAX = 3

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_.])?")


class Address(NamedTuple):
    """A host and a port; an IPv6 host is without its brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return `host:port`, with an IPv6 host in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_addresses(value: object) -> tuple[Address, ...]:
    """Read one or more addresses.

    Args:
        value: `"a:9092,b:9092"`, or a sequence of such texts.

    Returns:
        At least one address, in the order given, none twice.

    Raises:
        ValueError: Empty, malformed, or the same address twice; the text says which.
    """
    if isinstance(value, str):
        texts = value.split(",")
    elif isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | memoryview):
        texts = [part for entry in value for part in _entry_parts(entry)]
    else:
        raise ValueError("must be a text such as 'host:9092,other:9092', or a sequence of them")
    addresses: list[Address] = []
    for text in texts:
        if not text.strip():
            continue
        address = parse_address(text.strip())
        if address in addresses:
            raise ValueError(f"names {address} twice; give each broker once")
        addresses.append(address)
    if not addresses:
        raise ValueError("must name at least one broker, as 'host:port'")
    return tuple(addresses)


def shown_addresses(addresses: Sequence[Address]) -> str:
    """Write addresses for people: the first few, and how many more there are.

    Args:
        addresses: Any number.

    Returns:
        One line, of a bounded length.
    """
    shown_ones = ",".join(str(address) for address in addresses[:_ADDRESSES_SHOWN_MAX])
    more = len(addresses) - _ADDRESSES_SHOWN_MAX
    return f"{shown_ones} and {more} more" if more > 0 else shown_ones


def bootstrap_addresses(value: object) -> tuple[Address, ...]:
    """Read addresses as `parse_addresses` does, for a reader that has no other settings.

    Args:
        value: The value, as there.

    Returns:
        The addresses.

    Raises:
        ConfigError: A value is invalid; the text names the setting.
    """
    try:
        return parse_addresses(value)
    except ValueError as error:
        raise ConfigError(f"bootstrap_servers {error}") from None


def parse_address(text: str) -> Address:
    """Read one address.

    Args:
        text: `host:port`, or `[IPv6]:port`.

    Returns:
        The address, its host in lower case.

    Raises:
        ValueError: The text is malformed; the error says why.
    """
    if "://" in text:
        raise ValueError(f"entry {shown(text)} has a scheme; write host:port alone")
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        _check_ipv6(host, text)
        port_text = rest.removeprefix(":") if rest.startswith(":") else ""
    else:
        host, _, port_text = text.rpartition(":")
        if not host:
            raise ValueError(f"entry {shown(text)} has no port; write {_with_port(text)}")
        _check_name(host, text)
    return Address(host.lower(), _parse_port(port_text, text))


def _with_port(text: str) -> str:
    """Return the address that was probably intended: Kafka's default port is 9092."""
    return f"{text if len(text) <= HOST_LENGTH_MAX and text.isprintable() else 'host'}:9092"


def _entry_parts(entry: object) -> list[str]:
    if not isinstance(entry, str):
        raise ValueError(f"holds {shown(entry)}, which is not a text such as 'host:9092'")
    return entry.split(",")


def _check_ipv6(host: str, text: str) -> None:
    import ipaddress  # noqa: PLC0415 - few addresses are of IPv6

    try:
        ipaddress.IPv6Address(host)
    except ValueError as error:
        raise ValueError(
            f"entry {shown(text)} holds no IPv6 address between its brackets: {error}"
        ) from None


def _check_name(host: str, text: str) -> None:
    if ":" in host:
        raise ValueError(
            f"entry {shown(text)} has too many colons; write an IPv6 address as [address]:port"
        )
    if len(host) > HOST_LENGTH_MAX or _HOST.fullmatch(host) is None:
        raise ValueError(
            f"entry {shown(text)} holds no host name: letters, digits, '.', '-' and '_', at most "
            f"{HOST_LENGTH_MAX} (an international name in its xn-- form)"
        )


def _parse_port(port_text: str, text: str) -> int:
    if not (port_text.isascii() and port_text.isdecimal() and len(port_text) <= len("65535")):
        raise ValueError(f"entry {shown(text)} needs a port, a number from 1 to {PORT_MAX}")
    port = int(port_text)
    if not 1 <= port <= PORT_MAX:
        raise ValueError(f"entry {shown(text)} has port {port}; a port is from 1 to {PORT_MAX}")
    return port
