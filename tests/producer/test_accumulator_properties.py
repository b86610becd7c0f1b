"""Append, drain, answer, retry, split, expire, flush, purge, abort in any order, against lists.

A real producer but for network and thread. After every step: no record twice in a log or out of
order, no outcome twice or out of order, every lent byte accounted for. At the end: every record has
one outcome, it is true, the pool is full again, no timer is left, and a fresh send succeeds.
"""

from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kprod.errors import BufferTimeout
from kprod.producer.produce_request import ProduceRequest
from tests.producer.bench import Bench

if TYPE_CHECKING:
    from kprod._core.memory.chunk_pool import ChunkChain

PARTITIONS = 3
INVALID_RECORD = 87
MESSAGE_TOO_LARGE = 10
CORRUPT_MESSAGE = 2
NOT_ENOUGH_REPLICAS = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
REQUEST_TIMED_OUT = 7
REJECTIONS = [
    CORRUPT_MESSAGE,
    NOT_ENOUGH_REPLICAS,
    INVALID_RECORD,
    MESSAGE_TOO_LARGE,
    REQUEST_TIMED_OUT,
]
APPENDED_ALL_THE_SAME = [NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT, 6]
DELIVERY_TIMEOUT_MS = 2_000


class SendPathMachine(RuleBasedStateMachine):
    """One producer, three partitions on two nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(
            buffer_memory=96 * 1024,
            batch_size=3_000,
            linger_ms=20,
            request_timeout_ms=500,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            max_request_size=30_000,
            retry_backoff_ms=10,
            retry_backoff_max_ms=40,
        )
        self.number = 0
        self.futures: list[object] = []

    @rule(
        partition=st.integers(0, PARTITIONS - 1),
        size=st.sampled_from([1, 100, 900, 2_500, 20_000]),
        count=st.integers(1, 4),
    )
    def send(self, partition: int, size: int, count: int) -> None:
        """Accepted, or rejected for want of memory."""
        for _ in range(count):
            self.number += 1
            value = b"%08d" % self.number + b"x" * size
            try:
                self.futures.append(self.bench.send(partition, value, headers={"h": b"1"}))
            except BufferTimeout:
                assert self.bench.pool.available_bytes < 3 * 16_384
                return

    @rule(advance_ms=st.sampled_from([0, 1, 20, 50, 400]))
    def turn(self, advance_ms: int) -> None:
        """The sender's."""
        self.bench.turn(advance_ms)

    @precondition(lambda self: self.bench.client.in_flight)
    @rule()
    def acknowledge(self) -> None:
        """The oldest request is appended and answered, whatever sequences say."""
        self.bench.answer(self.bench.client.in_flight[0])

    @precondition(lambda self: self.bench.client.in_flight)
    @rule(code=st.sampled_from(REJECTIONS))
    def reject(self, code: int) -> None:
        """The oldest request is answered with an error, and not appended."""
        self.bench.reject(self.bench.client.in_flight[0], code)

    @precondition(lambda self: self.bench.client.in_flight)
    @rule(code=st.sampled_from(APPENDED_ALL_THE_SAME))
    def append_and_reject(self, code: int) -> None:
        """It is appended, and the response is an error that leaves that open."""
        carried = self.bench.client.in_flight[0]
        answers = self.bench.apply(carried)
        told = {p: (code if answer[0] == 0 else answer[0], -1) for p, answer in answers.items()}
        self.bench.answer(carried, told)

    @precondition(lambda self: self.bench.client.in_flight)
    @rule(appended=st.integers(0, 5), unwritten=st.booleans())
    def disconnect(self, appended: int, unwritten: bool) -> None:
        """A node's connection goes away; some of its batches have been appended."""
        client = self.bench.client
        node_id = client.in_flight[0].request.node_id
        lost = [carried for carried in client.in_flight if carried.request.node_id == node_id]
        for index, carried in enumerate(lost):
            if index < appended:
                self.bench.apply(carried)
            is_last = index == len(lost) - 1
            client.lose(carried, was_written=index < appended or not (is_last and unwritten))

    @rule(leaders=st.lists(st.sampled_from([0, 1, -1]), min_size=3, max_size=3))
    def move_leaders(self, leaders: list[int]) -> None:
        """Or take them away."""
        self.bench.lead(*leaders)

    @rule()
    def forget_topic(self) -> None:
        """Metadata loses the topic for a while; sequences stay."""
        self.bench.forget_topic()

    @rule()
    def flush(self) -> None:
        """Linger is cut."""
        self.bench.producer.flush(0)

    @rule(room=st.integers(1, 5))
    def limit(self, room: int) -> None:
        """How many requests a node takes at a time."""
        self.bench.client.room = room

    @invariant()
    def logs_and_outcomes_are_in_order(self) -> None:
        """See the model."""
        for model in self.bench.partitions:
            model.check_so_far()

    @invariant()
    def every_lent_byte_has_a_holder(self) -> None:
        """A queue's batch, or a request that is not complete."""
        chains: dict[int, ChunkChain] = {}
        for queue in self.bench.accumulator.queues():
            assert 0 <= queue.drain_index <= len(queue.batches)
            for batch in queue.batches:
                chains[id(batch.builder.chain)] = batch.builder.chain
        for carried in self.bench.client.in_flight:
            for batch in carried.request.batches:
                chains[id(batch.builder.chain)] = batch.builder.chain
        for request, _ in self.bench.client._completions:
            for batch in request.batches if isinstance(request, ProduceRequest) else ():
                chains[id(batch.builder.chain)] = batch.builder.chain
        pooled = [chain for chain in chains.values() if chain.pool is self.bench.pool]
        assert sum(chain.lent_bytes for chain in pooled) == self.bench.pool.lent_bytes

    def teardown(self) -> None:
        """Calm; then everything is settled and given back, and a new send succeeds."""
        bench = self.bench
        bench.client.room = 5
        bench.lead(0, 0, 1)
        bench.run(turns=DELIVERY_TIMEOUT_MS // 20 + 40, advance_ms=20)
        for model in bench.partitions:
            model.check_at_the_end()
        assert all(future.done() for future in self.futures)  # type: ignore[attr-defined]
        assert bench.pool.lent_bytes == 0
        assert bench.timers() == 0
        probes = [bench.send(partition, b"probe%d" % partition) for partition in range(PARTITIONS)]
        bench.run(turns=20)
        assert all(probe.exception(0) is None for probe in probes)
        bench.producer.close()


class EndingMachine(SendPathMachine):
    """The same, ended in the middle: by purges and by closing."""

    @rule()
    def purge(self) -> None:
        """Those behind batches in flight are settled first: the one order that is given up."""
        for model in self.bench.partitions:
            model.is_ordered = False
        self.bench.producer.purge()

    def teardown(self) -> None:
        """Close: every future is settled, and the pool full."""
        bench = self.bench
        bench.producer.close(0)
        for model in bench.partitions:
            model.check_at_the_end()
        assert bench.pool.lent_bytes == 0


TestSendPath = SendPathMachine.TestCase
TestSendPath.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestEnding = EndingMachine.TestCase
TestEnding.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
