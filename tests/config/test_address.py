"""Addresses of brokers: the forms that are accepted, and the texts about the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod.config.address import Address, parse_addresses


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a:1", [("a", 1)]),
        ("a:1,b:2", [("a", 1), ("b", 2)]),
        (" a:1 , b:2 ,", [("a", 1), ("b", 2)]),
        (["a:1", "b:2,c:3"], [("a", 1), ("b", 2), ("c", 3)]),
        (("Kafka-1.Example.org:9092",), [("kafka-1.example.org", 9092)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("[2001:DB8::1]:1,[fe80::1%eth0]:2", [("2001:db8::1", 1), ("fe80::1%eth0", 2)]),
        ("my_broker:65535", [("my_broker", 65535)]),
    ],
)
def test_accepted_forms(written: object, expected: list[tuple[str, int]]) -> None:
    """One text or several, IPv6 in brackets, blanks and empty entries ignored."""
    assert list(parse_addresses(written)) == expected


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("", "at least one broker"),
        (",", "at least one broker"),
        ([], "at least one broker"),
        ("localhost", "has no port; write localhost:9092"),
        (":9092", "has no port"),
        ("a:", "needs a port"),
        ("a:x", "needs a port"),
        ("a:-1", "needs a port"),
        ("a:\u0669", "needs a port"),
        ("a:0", "a port is from 1 to 65535"),
        ("a:65536", "a port is from 1 to 65535"),
        ("a:" + "9" * 5_000, "needs a port"),
        ("::1:9092", "too many colons"),
        ("[::1]9092", "needs a port"),
        ("[::1]", "needs a port"),
        ("[a]:1", "no IPv6 address"),
        ("[:1", "no IPv6 address"),
        ("PLAINTEXT://a:1", "has a scheme"),
        ("a b:1", "no host name"),
        ("a\nb:1", "no host name"),
        ("-a:1", "no host name"),
        ("a" * 254 + ":1", "no host name"),
        ("a:1,A:1", "names a:1 twice"),
        (b"a:1", "must be a text"),
        (5, "must be a text"),
        ([b"a:1"], "is not a text"),
    ],
)
def test_rejected_forms(written: object, says: str) -> None:
    """Each wrong form is told apart, and the text is short and printable."""
    with pytest.raises(ValueError, match=says) as caught:
        parse_addresses(written)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 250


@given(st.text())
def test_any_text_is_accepted_or_rejected_with_a_value_error(text: str) -> None:
    """Nothing but a `ValueError` comes of a text, and an accepted one reads the same again."""
    try:
        addresses = parse_addresses(text)
    except ValueError:
        return
    again = parse_addresses(",".join(str(address) for address in addresses))
    assert again == addresses


def test_address_prints_as_it_is_written() -> None:
    """An IPv6 host gets its brackets back."""
    assert str(Address("::1", 9092)) == "[::1]:9092"
    assert str(Address("a", 9092)) == "a:9092"
