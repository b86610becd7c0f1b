"""Types of the consumer's settings; in addition to those in `kinds`.

Thread-safety: immutable.
Source: KIP-1106 for `by_duration`; java.time.Duration.parse for the form of a duration.
"""

import re
from typing import Any, NamedTuple

from kprod.config.quoting import shown

_DURATION = re.compile(
    r"P(?:(?P<days>\d{1,9})D)?"
    r"(?:T(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?(?:(?P<seconds>\d{1,9}(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)
_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}
_BY_DURATION = "by_duration:"
_NAME_BYTES_MAX = 2**15 - 1  # the protocol's longest text
_JAVA_NAMES = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


class ResetPolicy(NamedTuple):
    """The starting position in a partition that has no valid position.

    Attributes:
        name: "earliest", "latest", "none" or "by_duration".
        duration_ms: Distance from now, at least 0; only with "by_duration".
    """

    name: str
    duration_ms: int = 0

    def __str__(self) -> str:
        """Return the policy as a setting has it."""
        if self.name == "by_duration":
            return f"{_BY_DURATION}PT{self.duration_ms / 1_000:g}S"
        return self.name


class ResetPolicyKind:
    """A reset policy by its name."""

    __slots__ = ()

    def convert(self, value: object) -> ResetPolicy:
        """Return the policy."""
        if isinstance(value, ResetPolicy):
            return value
        text = value.strip() if isinstance(value, str) else ""
        if text.lower() in {"earliest", "latest", "none"}:
            return ResetPolicy(text.lower())
        if text.lower().startswith(_BY_DURATION):
            return ResetPolicy("by_duration", _policy_ms(text[len(_BY_DURATION) :]))
        raise ValueError(f"must be {self.describe()}, not {shown(value)}")

    def describe(self) -> str:
        """Return the policies."""
        return "earliest, latest, none, by_duration:PnDTnHnMnS"


def _policy_ms(text: str) -> int:
    found = duration_ms(text)
    if found is None:
        raise ValueError(
            f"has no duration of ISO 8601 but {shown(text)}: write by_duration:PT1H30M for 90"
            " minutes, or by_duration:P7D for a week"
        )
    return found


def duration_ms(text: str) -> int | None:
    """Parse a duration.

    Args:
        text: A duration of ISO 8601 in days, hours, minutes and seconds, such as PT1H30M.

    Returns:
        Milliseconds; None if the text is no such duration.
    """
    found = _DURATION.fullmatch(text)
    parts = {} if found is None else {k: v for k, v in found.groupdict().items() if v is not None}
    if not parts:
        return None
    return sum(round(float(number) * _MS[unit]) for unit, number in parts.items())


class ConsumerInterceptorList:
    """Objects with the two methods of a consumer's interceptor."""

    __slots__ = ()

    def convert(self, value: object) -> tuple[object, ...]:
        """Return the objects; a text is never imported."""
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"must be {self.describe()}, not {shown(value)}")
        for entry in value:
            for method in ("on_consume", "close"):
                if isinstance(entry, type) or not callable(getattr(entry, method, None)):
                    raise ValueError(
                        f"must be {self.describe()}, and {shown(entry)} is not one: an object"
                        f" with {method}()"
                    )
        return tuple(value)

    def describe(self) -> str:
        """Return the accepted values."""
        return "a list of interceptors"


class GroupName:
    """The id of a group or of one of its static members."""

    __slots__ = ()

    def convert(self, value: object) -> str:
        """Return the name; None is none."""
        if value is None:
            return ""
        if not isinstance(value, str):
            raise ValueError(f"must be a text, not {shown(value)}")
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise ValueError(f"must be text in Unicode, not {shown(value)}") from None
        if size > _NAME_BYTES_MAX:
            raise ValueError(f"must be at most {_NAME_BYTES_MAX} bytes, not {size}")
        return value

    def describe(self) -> str:
        """Return the form of a name."""
        return f"text, at most {_NAME_BYTES_MAX} bytes; empty for none"


class AssignorList(NamedTuple):
    """Assignors in order of preference: names of kprod's, or objects of the application.

    Attributes:
        names: The names of kprod's assignors.
    """

    names: tuple[str, ...]

    def convert(self, value: object) -> tuple[object, ...]:
        """Return the assignors; a text may name several, and Java's classes count as names."""
        if isinstance(value, str):
            given: list[object] = [each.strip() for each in value.split(",") if each.strip()]
        else:
            given = list(value) if isinstance(value, (list, tuple)) else [value]
        found = [self._one(each) for each in given]
        names = [each if isinstance(each, str) else each.name for each in found]
        if not found or len(set(names)) < len(names):
            raise ValueError(f"must be {self.describe()}, each once, not {shown(value)}")
        return tuple(found)

    def describe(self) -> str:
        """Return the names, and what else may be given."""
        return f"a list of {', '.join(self.names)} or objects with name, is_cooperative and assign"

    def _one(self, given: object) -> Any:  # noqa: ANN401 - the application's own class
        if isinstance(given, str):
            known = _JAVA_NAMES.get(given.rpartition(".")[2], given)
            if known in self.names:
                return known
        elif not isinstance(given, type):
            name, kind = getattr(given, "name", None), getattr(given, "is_cooperative", None)
            methods = [getattr(given, it, None) for it in ("assign", "assignor_bytes")]
            is_named = isinstance(name, str) and name and isinstance(kind, bool)
            if is_named and all(callable(it) for it in methods):
                return given
        raise ValueError(f"must be {self.describe()}, and {shown(given)} is not one")
