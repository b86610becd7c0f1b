"""The order in which addresses of a name are tried."""

import socket

from kprod.network.address_cursor import (
    ADDRESSES_MAX,
    AddressCursor,
    SocketAddress,
    literal_address,
)


def address(number: int) -> SocketAddress:
    """One of a name's addresses."""
    return SocketAddress(socket.AF_INET, f"10.0.0.{number}", 9092)


def test_numbers_need_no_resolver() -> None:
    """IPv4 and IPv6 numbers are addresses already; a name is not."""
    assert literal_address("10.0.0.1", 9092) == address(1)
    assert literal_address("::1", 9092) == SocketAddress(socket.AF_INET6, "::1", 9092)
    assert literal_address("localhost", 9092) is None


def test_text_of_an_address() -> None:
    """IPv6 is in brackets."""
    assert str(address(1)) == "10.0.0.1:9092"
    assert str(SocketAddress(socket.AF_INET6, "::1", 9092)) == "[::1]:9092"


def test_addresses_are_walked_once() -> None:
    """After the last one the name must be resolved again."""
    cursor = AddressCursor()
    assert cursor.current is None

    cursor.accept([address(1), address(1), address(2)])

    assert cursor.current == address(1)
    assert cursor.advance()
    assert cursor.current == address(2)
    assert not cursor.advance()
    assert cursor.current is None
    assert not cursor.advance()


def test_a_lost_address_is_tried_last() -> None:
    """A broker that has just gone away is not the first to ask again."""
    cursor = AddressCursor()
    cursor.accept([address(1), address(2)])

    cursor.forget()
    assert cursor.current is None
    cursor.accept([address(1), address(2), address(3)])

    assert cursor.current == address(2)
    assert cursor.advance()
    assert cursor.advance()
    assert cursor.current == address(1)


def test_a_lost_address_that_is_the_only_one_is_tried_again() -> None:
    """There is nothing better."""
    cursor = AddressCursor()
    cursor.accept([address(1)])
    cursor.forget()
    cursor.accept([address(1)])

    assert cursor.current == address(1)


def test_a_name_with_absurdly_many_addresses_is_cut() -> None:
    """Trying them all would only delay the error."""
    cursor = AddressCursor()
    cursor.accept(
        [SocketAddress(socket.AF_INET, f"10.0.{n >> 8}.{n & 255}", 1) for n in range(999)]
    )

    assert sum(1 for _ in iter(cursor.advance, False)) == ADDRESSES_MAX - 1
