# cython: annotation_typing=False, nonecheck=True
"""Direct path for lone records: the calling thread writes the request and reads its response.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

An application that sends a record, waits for its outcome and sends the next one gains nothing from
a second thread: two thread switches cost more than all the work for the record. And if it computes
instead, the sender gets the GIL after 5 ms at the earliest. So while the sender's thread sleeps,
the calling thread sends the record itself (`send`). When it waits for the outcome, it waits at the
socket and completes the request (`await_response`).

    sender sleeps, its selector watches           caller
                                                  send()    → drained, encoded, written
                                                  result()  → selector paused, waits at the socket
                                                            → response processed; the next send
                                                              has the selector watch again

The path is taken only where all of it is compiled code, so that no signal handler can run in
between: one batch of a topic in use, no other work, nothing else in flight; a response that has
arrived whole, only acknowledges that batch, and has no other waiter or callback. Other threads may
run during a system call that releases the GIL: they do not get the lock, and a thread that posts a
record meanwhile wakes the sender. In every other case nothing is touched and the sender is woken; a
response is therefore looked at before it is taken out of the socket.

With TLS three more rules hold. CPython's `ssl` runs signal handlers inside its calls, so on the
main thread the path is taken only while no handler but Ctrl-C's is installed, which is postponed.
Decrypted bytes cannot return to the socket: what a peek has received and the caller does not take
is handed over to the sender. A session whose methods are Python code is the sender's.

Nothing tells in advance whether a caller will wait, or whether more records follow at once, which
the sender would put into one batch. So a record goes this way if the record before was waited for,
or if each of the two newest requests carried a single record while no other was in flight to its
node: records come so seldom that each is sent alone. The second record of a burst ends this.
If nobody waits, the sender reads the response.

Invariants.
    Holding `_sender_lock` means owning all of the sender's state. The sender releases it only while
    asleep; a caller never waits for it.
    When a wait has ended or the sender is awake, the selector watches every connection that has a
    request in flight.
    An error in here ends the sender, as one in `Sender.run_once` does.

Thread-safety: `send` and `await_response` any thread; the rest the sender's. `_sender_lock` guards
every field except `is_awaited` and `_is_waiting`, which change with the GIL held.
Source: leader and followers (Schmidt, Pattern-Oriented Software Architecture 2) for the idea;
epoll_ctl(2) for changing what another thread waits for.
"""

from kprod._core.clock import SystemClock
from kprod._core.collector import pause, resume
from kprod._core.outcome.batch_result import BatchResult
from kprod._core.send.send_path import SendPath
from kprod._core.signal_handlers import (
    main_thread_ident,
    may_run_handlers,
    settle_collector,
)
from kprod._core.wire.acknowledgements import read_acknowledgements
from kprod.network.channel import Channel
from kprod.network.client import NetworkClient
from kprod.network.framing import Frame
from kprod.network.in_flight import InFlightRequest
from kprod.network.response_wait import ResponseWait
from kprod.network.sleep_hook import SleepHook
from kprod.producer.accumulator import RecordAccumulator
from kprod.producer.partition_queue import PartitionQueue
from kprod.producer.produce_request import ProduceRequest
from kprod.producer.sender import Sender
from kprod.threads import make_lock

_DECLINED, _COMPLETED, _WAITING = range(3)  # results of `_begin_wait`
SLEEP_MIN_MS = 1_000  # the direct path never shortens the sender's sleep below this
LONE_MIN = 2  # requests in a row, after which a record that nobody waits for is sent directly


class DirectPath(SleepHook):
    """Sends single records, and reads their responses, while the sender sleeps.

    No deadline of a new record may be earlier than the end of a sleep of `sleep_max_ms`; otherwise
    the sender would have to be woken for it.

    Attributes:
        is_awaited: Whether the previous record was waited for.
        uses_tls: Whether connections use TLS; set before the first send.
    """

    def __init__(
        self,
        sender: Sender,
        client: NetworkClient,
        accumulator: RecordAccumulator,
        *,
        clock: SystemClock,
        path: SendPath,
        request_timeout_ms: int,
    ) -> None:
        """Create the path; the sender is awake.

        Args:
            sender: The sender, whose state the path uses.
            client: A client whose selector can pause, and which calls this hook.
            accumulator: The queues of batches.
            clock: The sender's clock.
            path: The send path, which posts records.
            request_timeout_ms: The smaller one of request timeout and delivery timeout.
        """
        super().__init__(max(request_timeout_ms, SLEEP_MIN_MS))
        self.is_awaited: bool = False
        self._request_timeout_ms = request_timeout_ms
        self.uses_tls: bool = False
        self._main_ident: object = main_thread_ident()
        self._sender = sender
        self._client = client
        self._accumulator = accumulator
        self._clock = clock
        self._path = path
        self._sender_lock = make_lock()  # guards: see the module
        self._sender_lock.acquire()
        self._sleeps_until_ms = 0  # latest end of the sender's sleep
        self._failure: BaseException | None = None
        self._response_wait = ResponseWait(client.io.make_socket_wait())
        self._is_waiting = False

    # Methods of the sender.

    def before_sleep(self, until_ms: int) -> None:
        """See `SleepHook.before_sleep`."""
        if not self._response_wait.is_only_in_flight():
            self._response_wait.clear_request()
        self._sleeps_until_ms = until_ms
        self._sender_lock.release()

    def after_sleep(self) -> None:
        """See `SleepHook.after_sleep`.

        The waiting thread may not get to its response, for example because of a signal handler, and
        the sender has woken because of a deadline or another thread. So the selector watches that
        connection again.

        Raises:
            BaseException: The exception of a calling thread on the path.
        """
        self._sender_lock.acquire()
        if self._failure is not None:
            raise self._failure
        self._response_wait.resume_selector()

    def close(self) -> None:
        """See `SleepHook.close`."""
        self._response_wait.close()

    # Methods of any thread.

    def send(self, queue: PartitionQueue) -> bool:
        """Send the batches just posted to the inbox, if the sender sleeps.

        Args:
            queue: The queue that was posted.

        Returns:
            False if the sender must be woken, since there is or remains work for it.
        """
        if not self.is_awaited and self._sender.lone_count < LONE_MIN:
            return False
        if not self._try_lock():
            return False
        self.is_awaited = False
        try:
            return self._send(queue, self._clock.now_ms())
        except BaseException as error:  # noqa: BLE001 - the sender ends with it
            self._failure = error
            return False
        finally:
            self._unlock()

    def await_response(self, result: BatchResult, timeout_s: float) -> bool:
        """Wait for the response to the request that `send` sent last, and process it.

        Args:
            result: The result that the caller waits for.
            timeout_s: Maximum wait in seconds; negative for no limit.

        Returns:
            False, immediately, if the caller must wait in another way. True after a possible wait;
            the caller checks the result either way.

        Raises:
            BaseException: A signal handler raised it; the delivery continues.
        """
        self.is_awaited = True
        outcome = self._begin_wait(result)
        if outcome == _WAITING:
            try:
                self._response_wait.wait(timeout_s)
            finally:
                self._end_wait(result)
        return outcome != _DECLINED

    def _try_lock(self) -> bool:
        """Acquire the lock, if the sender sleeps and no other thread has it.

        Until `_unlock` the garbage collector is paused: on CPython 3.11 any allocation may start a
        collection, and a finalizer of the application might wait for the sender, and so for this
        lock.

        Returns:
            True if it was acquired. Never with TLS where a signal handler might run meanwhile.
        """
        pause()
        try:
            if self._may_begin() and self._sender_lock.acquire(False):  # noqa: FBT003
                return True
        except MemoryError:
            pass  # the sender does the work
        resume()
        return False

    def _may_begin(self) -> bool:
        """Whether no application code can run meanwhile; on 3.12 a collection may run now."""
        if not self.uses_tls:
            return True
        # Checked first: a handler that raised in here would take its future from the caller.
        if may_run_handlers(self._main_ident):
            return False
        # A finalizer may have installed one.
        return not (settle_collector() and may_run_handlers(self._main_ident))

    def _unlock(self) -> None:
        resume()
        self._sender_lock.release()

    def _send(self, queue: PartitionQueue, now_ms: int) -> bool:
        accumulator, client, sender = self._accumulator, self._client, self._sender
        if sender.has_more_to_do(now_ms) or not sender.is_topic_noted(queue.topic):
            return False
        accumulator.take_inbox(now_ms)
        if not accumulator.is_alone(queue):
            return False
        connection = client.idle_connection(queue.ring_node_id, now_ms)
        if connection is None or not _can_peek(connection.channel):
            return False
        sender.send_ready([queue.ring_node_id], now_ms)
        self._response_wait.set_request(connection)
        if client.has_completions() or sender.has_more_to_do(now_ms):
            return False
        if accumulator.ready_nodes():
            return False
        return now_ms + self._request_timeout_ms >= self._sleeps_until_ms

    def _begin_wait(self, result: BatchResult) -> int:
        """Complete the request if its response has arrived; otherwise prepare to wait."""
        if not self._try_lock():
            return _DECLINED
        try:
            return self._complete_or_begin_wait(result)
        except BaseException as error:  # noqa: BLE001 - the sender ends with it
            self._fail(error)
            return _DECLINED
        finally:
            self._unlock()

    def _complete_or_begin_wait(self, result: BatchResult) -> int:
        if self._is_waiting:
            # The other thread may be this one, whose wait was interrupted by a signal handler that
            # waits, too.
            self._path.wake_sender()
            return _DECLINED
        if not self._concerns_only(result):
            return _DECLINED
        self._complete()
        if result.done:
            return _COMPLETED
        if self._response_wait.hand_over():
            return _DECLINED
        if not self._response_wait.pause_selector():
            return _DECLINED
        self._is_waiting = True
        result.add_waiter(self._response_wait)
        return _WAITING

    def _end_wait(self, result: BatchResult) -> None:
        """Complete the request if its response has arrived; make the selector watch again."""
        result.remove_waiter(self._response_wait)
        self._is_waiting = False
        if not self._try_lock():
            # Another thread has the lock; the sender does the rest when it wakes.
            self._path.wake_sender()
            return
        try:
            if self._concerns_only(result):
                self._complete()
                self._response_wait.hand_over()  # the sender may have resumed the selector already
            self._response_wait.resume_selector()
            self._response_wait.clear_request()  # a second wait for it takes the normal path
        except BaseException as error:  # noqa: BLE001 - the sender ends with it
            self._fail(error)
        finally:
            self._unlock()

    def _concerns_only(self, result: BatchResult) -> bool:
        """Whether the request carries this batch alone, and only its waiter would be notified."""
        response_wait = self._response_wait
        if not response_wait.is_only_in_flight():
            return False
        request = _single_batch_request(response_wait.in_flight)
        if request is None or request.batches[0].result is not result:
            return False
        if not result.has_no_observers():
            return False
        batch = request.batches[0]
        queue = batch.queue
        return queue.is_oldest(batch) and not queue.must_rewind and not queue.is_gone

    def _complete(self) -> None:
        """Process the response, if it has arrived and only acknowledges the batch."""
        response_wait, client = self._response_wait, self._client
        in_flight, accumulator = response_wait.in_flight, self._accumulator
        request, frame = _single_batch_request(in_flight), response_wait.peek()
        if in_flight is None or request is None or frame is None:
            return
        if not _only_acknowledges(frame, in_flight.version, request):
            return
        now_ms = self._clock.now_ms()
        response_wait.take_response(frame, now_ms)
        client.fire_completions()
        # The sender may wait for this: it may start a new epoch, or reduce the requests in flight.
        has_more = accumulator.has_news() or self._sender.has_more_to_do(now_ms)
        if has_more or accumulator.ready_nodes():
            self._path.wake_sender()

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self._path.wake_sender()


def _can_peek(channel: Channel | None) -> bool:
    """Whether the channel's response can be peeked, and nothing that was peeked is left."""
    return channel is not None and channel.transport.peeks and not channel.has_input


def _single_batch_request(in_flight: InFlightRequest | None) -> ProduceRequest | None:
    """Return the request, if it is a Produce request of one batch."""
    request = None if in_flight is None else in_flight.request
    if isinstance(request, ProduceRequest) and len(request.batches) == 1:
        return request
    return None


def _only_acknowledges(frame: Frame, version: int, request: ProduceRequest) -> bool:
    """Whether a response acknowledges the request's one batch, and says nothing else."""
    taken = read_acknowledgements(frame, version, 1)
    if taken is None or len(taken) != 1:
        return False
    topic, partition, _, _ = taken[0]
    name = topic if isinstance(topic, str) else request.names_by_id.get(topic)
    queue = request.batches[0].queue
    return name == queue.topic and partition == queue.partition
