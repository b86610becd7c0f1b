# cython: annotation_typing=False, nonecheck=True
"""The way of a record whose sender waits for it: out and back on the caller's own thread.

An application that sends a record and waits for its outcome, again and again, gains nothing from
another thread: to be handed there and back costs more than everything that is done for the record.
So while the sender's thread sleeps, the caller sends the record itself (`send`), and when it comes
to wait, it waits for the answer at the socket (`fetch`), and takes it in.

    sender asleep, its selector watching          caller
                                                  send()    → drained, encoded, written
                                                  result()  → selector paused, waits at the socket
                                                            → answer taken in; the next sending
                                                              has the selector watch again

It is a short cut, never a necessity. It is taken only where the whole of it is compiled code, in
which no signal handler can come in between: one batch of a topic in use, nothing else to do, and
nothing else in flight; an answer that has arrived whole, says nothing but yes, and that nobody else
waits for. Other threads may come in between, where a system call lets go of the interpreter lock:
they do not get the turn, and who posts a record meanwhile wakes the sender. Whatever is otherwise
is left to the sender as it is found, and the sender is woken for it; an answer is therefore looked
at before it is taken out of the socket.

Nobody is asked beforehand whether a caller will wait. A record that was waited for makes the next
one go this way, and one that was not ends it.

Invariants.
    Who holds `_turn` owns what else is the sender's own. The sender holds it but for its sleep;
    a caller never waits for it.
    Nothing that may be answered stays unwatched when its wait has ended, or the sender is awake.
    An error in here ends the sender, as one in a turn of its own does.

Thread-safety: `send` and `fetch` any thread; the rest the sender's. `_turn` guards every field but
`is_awaited` and `_is_fetching`, which change with the interpreter lock held.
Source: leader and followers (Schmidt, Pattern-Oriented Software Architecture 2) for the idea;
epoll_ctl(2) for the change of what another thread waits for.
"""

import threading

from kprod._core.clock import SystemClock
from kprod._core.collector import pause, resume
from kprod._core.outcome.batch_result import BatchResult
from kprod._core.send.send_path import SendPath
from kprod._core.wire.acknowledgements import read_acknowledgements
from kprod.network.client import NetworkClient
from kprod.network.framing import Frame
from kprod.network.in_flight import InFlightRequest
from kprod.producer.accumulator import RecordAccumulator
from kprod.producer.direct_path.response_wait import ResponseWait
from kprod.producer.partition_queue import PartitionQueue
from kprod.producer.produce_request import ProduceRequest
from kprod.producer.sender import Sender

_REFUSED, _TAKEN, _WAITING = range(3)  # what becomes of a wish to fetch
SLEEP_MIN_MS = 1_000  # as short as the sender's sleep may become for the sake of this


class DirectPath:
    """Sends single records, and takes in their answers, while the sender sleeps.

    Attributes:
        is_awaited: Whether the record before was waited for.
        sleep_max_ms: How long the sender may sleep: no deadline of a new record comes before its
            end, or it would have to be woken for it.
    """

    def __init__(
        self,
        sender: Sender,
        client: NetworkClient,
        accumulator: RecordAccumulator,
        *,
        clock: SystemClock,
        path: SendPath,
        patience_ms: int,
    ) -> None:
        """Begin; the sender is awake.

        Args:
            sender: Whose turns may be taken.
            client: Sleeps on an `EpollSelector`, and calls `lend` and `take_back`.
            accumulator: Takes records.
            clock: The sender's.
            path: Posts records.
            patience_ms: The least of what is allowed for a request and for a delivery.
        """
        self.is_awaited = False
        self.sleep_max_ms = max(patience_ms, SLEEP_MIN_MS)
        self._patience_ms = patience_ms
        self._sender = sender
        self._client = client
        self._accumulator = accumulator
        self._clock = clock
        self._path = path
        self._turn = threading.Lock()  # guards: see the module
        self._turn.acquire()
        self._until_ms = 0  # the sender's sleep ends by then
        self._trouble: BaseException | None = None
        self._answer = ResponseWait()
        self._is_fetching = False

    # The sender's.

    def lend(self, until_ms: int) -> None:
        """See `SleepingPlace.lend`."""
        if not self._answer.is_lone():
            self._answer.forget()
        self._until_ms = until_ms
        self._turn.release()

    def take_back(self) -> None:
        """See `SleepingPlace.take_back`.

        Who waits in the selector's place may be kept from its answer, by a signal handler say, and
        the sender has woken because of a deadline, or because somebody wants something of it. So
        the selector watches that connection again.

        Raises:
            BaseException: What a caller's turn has met.
        """
        self._turn.acquire()
        if self._trouble is not None:
            raise self._trouble
        self._answer.end()

    def close(self) -> None:
        """Give up the descriptors; nothing happens the second time."""
        self._answer.close()

    # Any thread's.

    def send(self, queue: PartitionQueue) -> bool:
        """Send what has just been posted to the inbox; the sender sleeps.

        Args:
            queue: That was posted.

        Returns:
            False if the sender must be woken: it has, or still has, something to do.
        """
        if not self.is_awaited or not self._enter():
            return False
        self.is_awaited = False
        try:
            return self._send(queue, self._clock.now_ms())
        except BaseException as error:  # noqa: BLE001 - the sender ends with it
            self._trouble = error
            return False
        finally:
            self._leave()

    def fetch(self, result: BatchResult, timeout_s: float) -> bool:
        """Wait for the answer to the record that `send` has sent last, and take it in.

        Args:
            result: That somebody waits for.
            timeout_s: Longest wait; negative has no end.

        Returns:
            False, at once, if it is not to be had in this way. True says nothing but that there
            may have been a wait.

        Raises:
            BaseException: What a signal handler raised; the record goes on.
        """
        self.is_awaited = True
        outcome = self._begin(result)
        if outcome == _WAITING:
            try:
                self._answer.wait(timeout_s)
            finally:
                self._end(result)
        return outcome != _REFUSED

    def _enter(self) -> bool:
        """Take the turn, if the sender sleeps and nobody else has it.

        Until `_leave` no garbage is collected: on CPython 3.11 that may begin in any allocation,
        and a finalizer of the application may wait for what only the sender can bring, which
        would wait for this very turn.

        Returns:
            Whether it was free.
        """
        if not self._turn.acquire(False):  # noqa: FBT003
            return False
        pause()
        return True

    def _leave(self) -> None:
        resume()
        self._turn.release()

    def _send(self, queue: PartitionQueue, now_ms: int) -> bool:
        accumulator, client, sender = self._accumulator, self._client, self._sender
        if sender.has_more_to_do(now_ms) or not sender.has_counters(queue.topic, now_ms):
            return False
        accumulator.take_inbox(now_ms)
        if not accumulator.is_alone(queue):
            return False
        connection = client.idle_connection(queue.ring_node_id, now_ms)
        if connection is None:
            return False
        sender.send_ready([queue.ring_node_id], now_ms)
        self._answer.expect(connection)
        if client.has_completions() or sender.has_more_to_do(now_ms):
            return False
        if accumulator.ready_nodes():
            return False
        return now_ms + self._patience_ms >= self._until_ms

    def _begin(self, result: BatchResult) -> int:
        """Take the answer if it is here; else be ready to wait for it in the selector's place."""
        if not self._enter():
            return _REFUSED
        try:
            return self._take_or_begin(result)
        except BaseException as error:  # noqa: BLE001 - the sender ends with it
            self._fail(error)
            return _REFUSED
        finally:
            self._leave()

    def _take_or_begin(self, result: BatchResult) -> int:
        if self._is_fetching:
            # Perhaps by this very thread, in whose wait a signal handler came to wait.
            self._path.wake_sender()
            return _REFUSED
        if not self._is_plain(result):
            return _REFUSED
        self._take()
        if result.done:
            return _TAKEN
        if not self._answer.begin():
            return _REFUSED
        self._is_fetching = True
        result.add_waiter(self._answer)
        return _WAITING

    def _end(self, result: BatchResult) -> None:
        """Take in what has come, if it is what was waited for; let the selector watch again."""
        result.remove_waiter(self._answer)
        self._is_fetching = False
        if not self._enter():
            # Somebody has the turn just now; what is left the sender finds when it wakes.
            self._path.wake_sender()
            return
        try:
            if self._is_plain(result):
                self._take()
            self._answer.end()
            self._answer.forget()  # a second wait for it is one like others
        except BaseException as error:  # noqa: BLE001 - the sender ends with it
            self._fail(error)
        finally:
            self._leave()

    def _is_plain(self, result: BatchResult) -> bool:
        """Whether its batch went alone, and to settle it concerns nobody but who waits."""
        answer = self._answer
        if not answer.is_lone():
            return False
        call = _single_call(answer.in_flight)
        if call is None or call.batches[0].result is not result or not result.has_no_observers():
            return False
        batch = call.batches[0]
        queue = batch.queue
        return queue.is_oldest(batch) and not queue.must_rewind and not queue.is_gone

    def _take(self) -> None:
        """Take in the answer, if it has come and says nothing but yes."""
        answer, client, accumulator = self._answer, self._client, self._accumulator
        in_flight = answer.in_flight
        call, frame = _single_call(in_flight), answer.peek()
        if in_flight is None or call is None or frame is None:
            return
        if not _says_yes(call, in_flight.version, frame):
            return
        now_ms = self._clock.now_ms()
        answer.take(frame, now_ms)
        client.fire_completions()
        # The sender may sleep for this answer: an epoch begins with it, or it makes room in flight.
        has_more = accumulator.has_news() or self._sender.has_more_to_do(now_ms)
        if has_more or accumulator.ready_nodes():
            self._path.wake_sender()

    def _fail(self, error: BaseException) -> None:
        self._trouble = error
        self._path.wake_sender()


def _single_call(in_flight: InFlightRequest | None) -> ProduceRequest | None:
    """The request, if it carries one batch and nothing else."""
    call = None if in_flight is None else in_flight.request
    return call if isinstance(call, ProduceRequest) and len(call.batches) == 1 else None


def _says_yes(call: ProduceRequest, version: int, frame: Frame) -> bool:
    """Whether an answer takes the one batch of a request, and says nothing else."""
    taken = read_acknowledgements(frame, version, 1)
    if taken is None or len(taken) != 1:
        return False
    topic, partition, _, _ = taken[0]
    name = topic if isinstance(topic, str) else call.names_by_id.get(topic)
    queue = call.batches[0].queue
    return name == queue.topic and partition == queue.partition
