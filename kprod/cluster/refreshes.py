"""The topics whose refresh other threads request from the client's thread, without a lock.

Each refresh has a number, drawn before it is posted. A metadata request serves the refreshes that
were posted before it was sent; its response completes all refreshes of the topic up to the highest
number served. So a response to an earlier request completes none, and none is lost: a failed
request leaves its refreshes for the next one.

Invariants.
    A refresh is completed only by a response to a request that named its topic and was sent after
    `post` had begun. Memory grows with the number of topics, not of refreshes, as long as the owner
    has turns.

Thread-safety: `post` and `is_done` any thread, since a deque's `append` and a dict's `get` are one
step each; the rest one thread, the client's.
"""

import itertools
from collections import deque
from collections.abc import Mapping


class Refreshes:
    """Requests for a response about a topic.

    Attributes:
        posted: Refreshes that other threads have added and the owner has not processed.
        unserved: Highest number by topic, of what the next question serves.
    """

    __slots__ = ("_done", "_numbers", "posted", "unserved")

    def __init__(self) -> None:
        """Start without requests."""
        self._numbers = itertools.count(1)
        self._done: dict[str, int] = {}
        self.posted: deque[tuple[str, int]] = deque()
        self.unserved: dict[str, int] = {}

    def post(self, topic: str) -> int:
        """Request metadata of a topic.

        Args:
            topic: The topic's name.

        Returns:
            A number for `is_done`.
        """
        number = next(self._numbers)
        self.posted.append((topic, number))
        return number

    def is_done(self, topic: str, number: int) -> bool:
        """Whether a request has ended.

        Args:
            topic: The topic's name.
            number: The result of `post` for this topic.

        Returns:
            False while no response has come, also while questions fail.
        """
        return self._done.get(topic, 0) >= number

    def take(self) -> list[str]:
        """Let the next request serve the posted refreshes.

        Returns:
            The topics that were posted, some perhaps more than once.
        """
        topics = []
        while self.posted:
            topic, number = self.posted.popleft()
            _raise(self.unserved, {topic: number})
            topics.append(topic)
        return topics

    def serve(self) -> Mapping[str, int]:
        """Record that a request for all topics of `unserved` is sent.

        Returns:
            Numbers of the served requests by topic, for `finish` or `put_back`.
        """
        served, self.unserved = self.unserved, {}
        return served

    def finish(self, served: Mapping[str, int]) -> None:
        """Record the response; the caller wakes waiters afterwards.

        Args:
            served: The result of `serve`.
        """
        _raise(self._done, served)

    def put_back(self, served: Mapping[str, int]) -> None:
        """Record that the request has failed.

        Args:
            served: The result of `serve`.
        """
        _raise(self.unserved, served)


def _raise(highest: dict[str, int], numbers: Mapping[str, int]) -> None:
    # Threads may post in another order than they drew their numbers.
    for topic, number in numbers.items():
        highest[topic] = max(number, highest.get(topic, 0))
