"""A send path whose hooks are its own methods: for tests of the compiled part alone."""

from collections import deque

from kprod._core.clock import SystemClock
from kprod._core.memory.chunk_pool import ChunkPool
from kprod._core.send.partition_appender import TopicRoutes
from kprod._core.send.send_hooks import SendHooks
from kprod._core.send.send_path import SendMethod, SendPath
from kprod.producer.send_rules import SendRules


class PlainPath(SendPath, SendHooks):
    """A send path without producer; a subclass fills the hooks in.

    Attributes:
        send: As `Producer.send`.
    """

    def __init__(
        self,
        pool: ChunkPool,
        clock: SystemClock,
        rules: SendRules,
        topics: dict[str, TopicRoutes] | None = None,
    ) -> None:
        super().__init__(self, pool, clock, deque(), {} if topics is None else topics, rules)
        self.send = SendMethod(self, None).send

    def check_signals(self) -> None:
        """Do nothing; a bulk send asks for it."""
