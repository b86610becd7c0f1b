"""Types of the login settings; in addition to those in `kinds`.

Thread-safety: immutable.
Source: librdkafka's CONFIGURATION.md (2.16) for extensions as a text.
"""

from collections.abc import Mapping

from kprod.config.quoting import shown
from kprod.secret import Secret


class PasswordKind:
    """A password, or a function that returns it; errors never show it."""

    __slots__ = ()

    def convert(self, value: object) -> object:
        """Return a `Secret`, or the function."""
        if isinstance(value, Secret) or callable(value):
            return value
        if not isinstance(value, str):
            raise ValueError(
                f"must be a text or a function, not a value of type {type(value).__name__}"
            )
        return Secret(value)

    def describe(self) -> str:
        """Return the accepted values."""
        return "text (kept secret), or a function without arguments that returns it"


class TokenProviderObject:
    """An object that provides tokens."""

    __slots__ = ()

    def convert(self, value: object) -> object:
        """Return the provider; None is none."""
        if value is None or callable(value) or callable(getattr(value, "token", None)):
            return value
        raise ValueError(f"must be {self.describe()}, not a value of type {type(value).__name__}")

    def describe(self) -> str:
        """Return the accepted values."""
        return "an object with a method token, or a function"


class HttpsUrl:
    """A URL with the scheme https."""

    __slots__ = ()

    def convert(self, value: object) -> str:
        """Return the URL."""
        if not isinstance(value, str):
            raise ValueError(f"must be {self.describe()}, not {shown(value)}")
        fault = _url_fault(value)
        if fault is not None:
            raise ValueError(f"must be {self.describe()}; it {fault}")
        return value

    def describe(self) -> str:
        """Return the accepted values."""
        return "a URL that begins with https://"


def _url_fault(url: str) -> str | None:
    from urllib.parse import urlsplit  # noqa: PLC0415 - few logins have a URL

    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "is malformed"
    if parts.scheme.lower() != "https":
        return f"begins with {shown(parts.scheme)}"
    if "@" in parts.netloc or parts.fragment:
        return "has a user or a fragment"
    if not parts.hostname or port == 0 or not url.isascii() or not url.isprintable() or " " in url:
        return "is malformed"
    return None


class Extensions:
    """Names and values, as a mapping or as a text."""

    __slots__ = ()

    def convert(self, value: object) -> Mapping[str, str]:
        """Return a mapping."""
        if isinstance(value, str):
            pairs = [pair.partition("=") for pair in value.split(",")]
            if not all(equals for _, equals, _ in pairs):
                raise ValueError(f"must be {self.describe()}, not {shown(value)}")
            value = {name.strip(): text.strip() for name, _, text in pairs}
        if not isinstance(value, Mapping):
            raise ValueError(f"must be {self.describe()}, not {shown(value)}")
        for name, text in value.items():
            is_name = isinstance(name, str) and name.isascii() and name.isalpha()
            if not is_name or name == "auth":
                raise ValueError(f"has the name {shown(name)}; names are letters, and not 'auth'")
            if not isinstance(text, str) or not text.isascii() or not text.isprintable():
                raise ValueError(f"has a value of {name} that is not printable ASCII text")
        return dict(value)

    def describe(self) -> str:
        """Return the accepted values."""
        return "a mapping, or name=value separated by commas"
