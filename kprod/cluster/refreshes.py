"""Topics that other threads ask the client's thread to refresh, without a lock between them.

Each request has a number, drawn before it is posted. A question serves the requests that were
posted before it was asked; its response ends every request of the topic up to the highest number
that it served. So a response to an earlier question ends none, and no request is lost: a failed
question leaves its requests for the next one.

Invariants.
    A request ends only by a response to a question that named its topic and was asked after `post`
    had begun.
    Memory grows with the number of topics, not of requests, whenever the owner has a turn.

Thread-safety: `post` and `is_done` any thread, since a deque's `append` and a dict's `get` are one
step each; the rest one thread, the client's.
"""

import itertools
from collections import deque
from collections.abc import Mapping


class Refreshes:
    """Requests for a response about a topic.

    Attributes:
        posted: What other threads have added, and the owner has not looked at.
        unserved: Highest number by topic, of what the next question serves.
    """

    __slots__ = ("_done", "_numbers", "posted", "unserved")

    def __init__(self) -> None:
        """Make a collection without requests."""
        self._numbers = itertools.count(1)
        self._done: dict[str, int] = {}
        self.posted: deque[tuple[str, int]] = deque()
        self.unserved: dict[str, int] = {}

    def post(self, topic: str) -> int:
        """Ask for a response about a topic.

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
            number: As `post` returned it for this topic.

        Returns:
            False while no response has come, also while questions fail.
        """
        return self._done.get(topic, 0) >= number

    def take(self) -> list[str]:
        """Let the next question serve the posted requests.

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
        """Note that a question about all topics of `unserved` is asked.

        Returns:
            What it serves, for `finish` or `put_back`.
        """
        served, self.unserved = self.unserved, {}
        return served

    def finish(self, served: Mapping[str, int]) -> None:
        """Note that a question was answered; wake waiters afterwards.

        Args:
            served: As `serve` returned it.
        """
        _raise(self._done, served)

    def put_back(self, served: Mapping[str, int]) -> None:
        """Note that a question has failed.

        Args:
            served: As `serve` returned it.
        """
        _raise(self.unserved, served)


def _raise(highest: dict[str, int], numbers: Mapping[str, int]) -> None:
    # Threads may post in another order than they drew their numbers.
    for topic, number in numbers.items():
        highest[topic] = max(number, highest.get(topic, 0))
