"""A subscription by pattern: the topics whose names match a regular expression.

A name matches if the expression matches at its beginning, as for confluent-kafka, kafka-python and
aiokafka; one that ends with `$` has to match all of it, as Java's patterns do.

Thread-safety: as documented for each field.
Source: Kafka SubscriptionState.matchesSubscribedPattern (clients 4.3.1); Python's `re`.
"""

import re
from collections.abc import Iterable


class TopicPattern:
    """A subscription by pattern.

    Attributes:
        regex: The regular expression.
        matched: The topics that are subscribed; None before the first comparison. Set by the
            polling thread.
    """

    __slots__ = ("matched", "regex")

    def __init__(self, regex: "re.Pattern[str]") -> None:
        """Start without topics.

        Args:
            regex: The regular expression.
        """
        self.regex: re.Pattern[str] = regex
        self.matched: frozenset[str] | None = None

    def match(self, names: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
        """Compare the cluster's topics with the pattern; the polling thread.

        Args:
            names: All topics that may be read.

        Returns:
            The topics that match, and those of them that the cluster did not have before.
        """
        found = frozenset(name for name in names if self.regex.match(name))
        return found, frozenset() if self.matched is None else found - self.matched


def as_pattern(given: object) -> TopicPattern:
    """Check a pattern from the application.

    Args:
        given: A compiled regular expression, or its text.

    Returns:
        A subscription to what it matches.

    Raises:
        TypeError: It is neither, or an expression for bytes.
        ValueError: The text is no regular expression.
    """
    if isinstance(given, str):
        try:
            given = re.compile(given)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(
                f"the pattern {given!r:.200} is not a regular expression of Python's re: {error}"
            ) from error
    if not isinstance(given, re.Pattern) or not isinstance(given.pattern, str):
        raise TypeError(
            f"a pattern is a text or re.compile() of one, not {given!r:.80}; topic names are texts"
        )
    return TopicPattern(given)
