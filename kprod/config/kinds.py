"""Types of settings: each class converts a value, and describes itself.

Kafka's properties are texts, so a number may be given as "5" and a flag as "true". Texts are never
resolved: no import by name, no environment, no file (`${file:…}` is kept as it is).

A kind raises `ValueError` with the half sentence that follows the setting's name; the reader of
settings makes the whole sentence of it.

Thread-safety: immutable.
"""

import operator
from collections.abc import Callable
from typing import NamedTuple, Protocol

from kprod.config.address import Address, parse_addresses
from kprod.config.quoting import shown
from kprod.model import Acks, Codec
from kprod.secret import Secret

INT32_MAX = 2**31 - 1
CLIENT_ID_BYTES_MAX = 255


class Kind(Protocol):
    """Converts what an application wrote into what kprod uses."""

    def convert(self, value: object) -> object:
        """Return the checked value; `ValueError` says what is wrong."""

    def describe(self) -> str:
        """Return a description of the accepted values, for the configuration page."""


class Whole(NamedTuple):
    """A whole number between two bounds.

    Attributes:
        minimum: Smallest value accepted.
        reason: Why the bounds are where they are.
        maximum: Largest value accepted.
    """

    minimum: int
    reason: str
    maximum: int = INT32_MAX

    def convert(self, value: object) -> int:
        """Return the number; a decimal text counts as one, a bool does not."""
        number = _whole_number(value)
        if number is None:
            raise ValueError(f"must be a whole number, not {shown(value)}")
        if not self.minimum <= number <= self.maximum:
            raise ValueError(f"must be {self.describe()}, not {number}: {self.reason}")
        return number

    def describe(self) -> str:
        """Return the bounds."""
        if self.maximum == INT32_MAX:
            return f"{self.minimum} or more"
        return f"from {self.minimum} to {self.maximum}"


class Level(NamedTuple):
    """A range, and one number outside it with a special meaning, such as −1.

    Attributes:
        levels: The range, both ends included.
        default_marker: The special number.
    """

    levels: Whole
    default_marker: int

    def convert(self, value: object) -> int:
        """Return the level."""
        if _whole_number(value) == self.default_marker:
            return self.default_marker
        return self.levels.convert(value)

    def describe(self) -> str:
        """Return the range and the marker."""
        return f"{self.default_marker}, or {self.levels.describe()}"


class Flag:
    """True or false."""

    __slots__ = ()

    def convert(self, value: object) -> bool:
        """Return the flag; the texts "true" and "false" count, numbers do not."""
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
            return value.strip().lower() == "true"
        raise ValueError(f"must be True or False, not {shown(value)}")

    def describe(self) -> str:
        """Return both values."""
        return "True, False"


class Choice(NamedTuple):
    """One of a few texts."""

    choices: tuple[str, ...]

    def convert(self, value: object) -> str:
        """Return the text, in lower case."""
        text = value.strip().lower() if isinstance(value, str) else None
        if text is None or text not in self.choices:
            raise ValueError(f"must be one of {', '.join(self.choices)}, not {shown(value)}")
        return text

    def describe(self) -> str:
        """Return the choices."""
        return ", ".join(self.choices)


class AcksKind:
    """Number of replicas that must have a batch: all (−1), 1 or 0."""

    __slots__ = ()

    def convert(self, value: object) -> Acks:
        """Return the enumeration's member."""
        if isinstance(value, str) and value.strip().lower() == "all":
            return Acks.ALL
        number = _whole_number(value)
        if number is None or number not in {-1, 0, 1}:
            raise ValueError(f"must be 'all' (or -1), 1 or 0, not {shown(value)}")
        return Acks(number)

    def describe(self) -> str:
        """Return the three values."""
        return "all (−1), 1, 0"


class CodecKind:
    """A compression codec by name; None is none."""

    __slots__ = ()

    def convert(self, value: object) -> Codec:
        """Return the enumeration's member."""
        if value is None:
            return Codec.NONE
        if isinstance(value, Codec):
            return value
        if isinstance(value, str) and value.strip().upper() in Codec.__members__:
            return Codec[value.strip().upper()]
        raise ValueError(f"must be one of {self.describe()}, not {shown(value)}")

    def describe(self) -> str:
        """Return the codecs' names."""
        return ", ".join(codec.name.lower() for codec in Codec)


class ClientId:
    """A name that brokers write to their logs."""

    __slots__ = ()

    def convert(self, value: object) -> str:
        """Return the name: printable, so that it cannot forge a line of a log."""
        if not isinstance(value, str):
            raise ValueError(f"must be a text, not {shown(value)}")
        if not value.isprintable():
            raise ValueError(
                f"must be printable, not {shown(value)}: brokers write it to their logs"
            )
        if len(value.encode()) > CLIENT_ID_BYTES_MAX:
            raise ValueError(
                f"must be at most {CLIENT_ID_BYTES_MAX} bytes, not {len(value.encode())}"
            )
        return value

    def describe(self) -> str:
        """Return what a name may be."""
        return f"printable text, at most {CLIENT_ID_BYTES_MAX} bytes"


class AddressList:
    """Addresses of brokers."""

    __slots__ = ()

    def convert(self, value: object) -> tuple[Address, ...]:
        """Return the addresses, at least one, none twice."""
        return parse_addresses(value)

    def describe(self) -> str:
        """Return the form."""
        return "'host:port,host:port' or a sequence of such texts; IPv6 as '[address]:port'"


class Function(NamedTuple):
    """A callable, or None; where names are given, also one of them.

    Attributes:
        names: Texts that mean something built in.
    """

    names: tuple[str, ...] = ()

    def convert(self, value: object) -> Callable[..., object] | str | None:
        """Return the callable or the name; a text is never imported."""
        if value is None or callable(value):
            return value
        if isinstance(value, str) and value in self.names:
            return value
        msg = f"must be {self.describe()}, not {shown(value)}"
        if isinstance(value, str):
            msg += ": kprod imports nothing by name, pass the object itself"
        raise ValueError(msg)

    def describe(self) -> str:
        """Return a description of the accepted values."""
        named = "".join(f", {name!r}" for name in self.names)
        return f"a callable{named} or None"


class InterceptorList:
    """Objects with the three methods of an interceptor."""

    __slots__ = ()

    def convert(self, value: object) -> tuple[object, ...]:
        """Return the objects; a text is never imported."""
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"must be {self.describe()}, not {shown(value)}")
        for entry in value:
            for method in ("on_send", "on_acknowledgement", "close"):
                if isinstance(entry, type) or not callable(getattr(entry, method, None)):
                    raise ValueError(
                        f"must be {self.describe()}, and {shown(entry)} is not one: an object"
                        f" with {method}()"
                    )
        return tuple(value)

    def describe(self) -> str:
        """Return a description of the accepted values."""
        return "a list of interceptors"


class SecretText:
    """A password; errors never show it."""

    __slots__ = ()

    def convert(self, value: object) -> Secret:
        """Return the text as a `Secret`."""
        if isinstance(value, Secret):
            return value
        if not isinstance(value, str):
            raise ValueError(f"must be a text, not a value of type {type(value).__name__}")
        return Secret(value)

    def describe(self) -> str:
        """Return a description of the accepted values."""
        return "text (kept secret)"


def _whole_number(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        text = value.strip()
        digits = text[1:] if text[:1] in {"-", "+"} else text
        # Nineteen digits hold every 64-bit number; int() of a longer text may take long.
        is_decimal = digits.isascii() and digits.isdecimal() and len(digits) <= len(str(2**63))
        return int(text) if is_decimal else None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # TypeError answers the question
    except TypeError:
        return None
