"""Types of the security settings; in addition to those in `kinds`.

Thread-safety: immutable.
Source: Kafka's SslConfigs (clients 4.3.1); librdkafka's CONFIGURATION.md (2.16).
"""

import sys
from typing import NamedTuple

from kprod.config.quoting import shown

TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")


class UpperChoice(NamedTuple):
    """One of a few names that are written in capitals; a small letter is as good."""

    choices: tuple[str, ...]

    def convert(self, value: object) -> str:
        """Return the name, in capitals."""
        text = value.strip().upper() if isinstance(value, str) else None
        if text is None or text not in self.choices:
            raise ValueError(f"must be one of {', '.join(self.choices)}, not {shown(value)}")
        return text

    def describe(self) -> str:
        """Return the choices."""
        return ", ".join(self.choices)


class PlainText(NamedTuple):
    """A text, such as a path.

    Attributes:
        text: Description for the configuration page.
    """

    text: str

    def convert(self, value: object) -> str:
        """Return the text; it has at least one character."""
        if not isinstance(value, str):
            raise ValueError(f"must be a text, not a value of type {type(value).__name__}")
        if not value:
            raise ValueError(f"is empty; it must be {self.text}")
        if "\0" in value:
            raise ValueError("has a character NUL")
        return value

    def describe(self) -> str:
        """Return what it is."""
        return self.text


class HostnameCheck:
    """Whether a name is checked: a flag, or an algorithm as Java and librdkafka name it."""

    __slots__ = ()

    def convert(self, value: object) -> bool:
        """Return the flag."""
        if isinstance(value, bool):
            return value
        answers = {"true": True, "https": True, "false": False, "none": False, "": False}
        text = value.strip().lower() if isinstance(value, str) else "?"
        if text not in answers:
            raise ValueError(f"must be {self.describe()}, not {shown(value)}")
        return answers[text]

    def describe(self) -> str:
        """Return a description of the accepted values."""
        return "True, False; 'https' is True, 'none' and '' are False"


class TlsVersionList:
    """Versions of TLS, newest and oldest and all between."""

    __slots__ = ()

    def convert(self, value: object) -> tuple[str, ...]:
        """Return the versions, oldest first, none twice."""
        texts = value.split(",") if isinstance(value, str) else value
        if not isinstance(texts, (list, tuple)) or not texts:
            raise ValueError(f"must be {self.describe()}, not {shown(value)}")
        names = [text.strip() if isinstance(text, str) else text for text in texts]
        for name in names:
            if name not in TLS_VERSIONS:
                raise ValueError(
                    f"must be {self.describe()}, not {shown(name)}: older versions are broken"
                )
        return tuple(version for version in TLS_VERSIONS if version in names)

    def describe(self) -> str:
        """Return a description of the accepted values."""
        return "one or both of TLSv1.2, TLSv1.3, as a list or with commas"


class TlsContextObject:
    """An `ssl.SSLContext`."""

    __slots__ = ()

    def convert(self, value: object) -> object:
        """Return the context; None is none."""
        library = sys.modules.get("ssl")  # an application that has a context has loaded it
        if value is not None and (library is None or not isinstance(value, library.SSLContext)):
            raise ValueError(f"must be {self.describe()}, not a value of {type(value).__name__}")
        return value

    def describe(self) -> str:
        """Return a description of the accepted values."""
        return "an ssl.SSLContext or None"
