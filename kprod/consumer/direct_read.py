# cython: annotation_typing=False, nonecheck=True
"""Direct path for reads: the polling thread reads the response to a fetch by itself.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

An application that keeps up with a topic waits for each record, and the I/O thread sleeps
meanwhile. Two thread switches a record cost more than all the work for it. So while the I/O thread
sleeps, the polling thread waits at the socket, processes the response, and sends the next fetch.

    I/O thread sleeps, its selector watches       polling thread
                                                  poll() → selector paused, waits at the socket
                                                         → response processed, next fetch sent
                                                         → selector watches again, records decoded

Only a lone response goes this way: without errors, with records of one partition or of none
(`read_lone_fetch`), and small enough for one look. It is looked at before it is taken out of the
socket; any other response is left there, and the I/O thread reads it. A broker is chosen because
its last response was a small one; the I/O thread serves the other brokers meanwhile.

The next fetch is sent from here if it is a lone one to the same broker. Otherwise (`send_to`) the
I/O thread is woken: for a retry, for another broker, or for a fetch that names several partitions.

Invariants.
    Holding `_io_lock` means owning all of the I/O thread's state. The I/O thread releases it only
    while asleep; the polling thread never waits for it.
    When no thread waits here, the selector watches every connection that has a request in flight.
    An error in here ends the I/O thread, as one in `ConsumerLoop.run_once` does.

Thread-safety: `wait` the polling thread; `close_after_fork` a forked child; the rest the I/O
    thread's. `_io_lock` guards every field except `_is_waiting`.
Source: leader and followers (Schmidt, Pattern-Oriented Software Architecture 2) for the idea.
"""

from collections.abc import Callable

from kprod._core.clock import SystemClock
from kprod._core.collector import pause, resume
from kprod._core.turn_lock import TurnLock
from kprod._core.wire.fetch_frames import LoneFetch, read_lone_fetch
from kprod.cluster.metadata_waiters import SLICE_MS
from kprod.consumer.fetch_buffer import FetchBuffer
from kprod.consumer.fetch_repeat import FetchRepeat
from kprod.consumer.fetch_request import FetchRequest
from kprod.consumer.fetcher import Fetcher
from kprod.consumer.mailbox import Mailbox
from kprod.network.client import NetworkClient
from kprod.network.connection_loss import fail_later
from kprod.network.framing import Frame
from kprod.network.response_wait import ResponseWait
from kprod.network.sleep_hook import SleepHook

_SLEEP_MIN_MS = 1_000  # the direct path never shortens the I/O thread's sleep below this
_RESPONSE_BYTES_MAX = 64 * 1024  # a longer response is left to the I/O thread
_PIECES_MAX = 16  # a response that arrives in more pieces is left to the I/O thread
_REST_MS = 10  # maximum wait for each piece but the first
_SLICE_MS = SLICE_MS  # a C integer: see the `.pxd`
_NOTHING, _INCOMPLETE, _TAKEN, _LEFT = range(4)  # a response's progress; `_LEFT`: the I/O thread's


class DirectRead(SleepHook):
    """Reads lone responses while the I/O thread sleeps.

    No deadline of a new fetch may be earlier than the end of a sleep of `sleep_max_ms`; otherwise
    the I/O thread would have to be woken for it.
    """

    def __init__(  # noqa: PLR0913 - its collaborators
        self,
        client: NetworkClient,
        fetcher: Fetcher,
        buffer: FetchBuffer,
        mailbox: Mailbox,
        *,
        repeat: FetchRepeat,
        clock: SystemClock,
        request_timeout_ms: int,
    ) -> None:
        """Create the path; the I/O thread is awake.

        Args:
            client: A client whose selector can pause, and which calls this hook.
            fetcher: Processes responses, and sends the next fetch.
            buffer: Gets the records.
            mailbox: Wakes the polling thread.
            repeat: Does what the fetcher does, for the usual response.
            clock: The I/O thread's clock.
            request_timeout_ms: Time from sending a fetch to its response, at least.
        """
        super().__init__(max(request_timeout_ms, _SLEEP_MIN_MS))
        self._client = client
        self._fetcher = fetcher
        self._repeat = repeat
        self._buffer = buffer
        self._mailbox = mailbox
        self._clock = clock
        self._request_timeout_ms = request_timeout_ms
        self._io_lock: TurnLock = TurnLock()  # guards: see the module
        self._io_lock.acquire()
        self._sleeps_until_ms = 0  # latest end of the I/O thread's sleep
        self._failure: BaseException | None = None
        socket_wait = client.io.make_socket_wait()
        socket_wait.by_edges = True  # so that the rest of a response can be waited for
        self._response_wait = ResponseWait(socket_wait, _RESPONSE_BYTES_MAX)
        self._is_waiting = False

    # Methods of the I/O thread.

    def before_sleep(self, until_ms: int) -> None:
        """See `SleepHook.before_sleep`."""
        self._response_wait.clear_request()
        self._sleeps_until_ms = until_ms
        self._io_lock.release()

    def after_sleep(self) -> None:
        """See `SleepHook.after_sleep`.

        The selector watches the connection again that the polling thread waits at: the I/O thread
        has woken because of a deadline or of another connection, and may read from any.

        Raises:
            BaseException: The exception of the polling thread on the path.
        """
        self._io_lock.acquire()
        if self._failure is not None:
            raise self._failure
        self._response_wait.resume_selector()

    def close(self) -> None:
        """See `SleepHook.close`."""
        self._response_wait.close()

    # Methods of other threads.

    def wait(self, is_ready: Callable[[], bool], until_ms: int | None) -> bool:
        """Wait for a response and process it, unless the condition holds already.

        Args:
            is_ready: The condition, for a notification by the mailbox.
            until_ms: Deadline, monotonic; None for none.

        Returns:
            False if the caller must wait in another way: immediately, or after a wait that has
            ended early without a response, which the I/O thread may have to process. So a caller
            that repeats its wait never spins.

        Raises:
            BaseException: A signal handler raised it; the fetch continues.
        """
        progress = self._begin_wait()
        if progress == _NOTHING:
            try:
                self._mailbox.add_waiter(self._response_wait)
                if not is_ready():  # checked after adding the waiter: no notification is missed
                    progress = self._wait_and_take(is_ready, until_ms)
            finally:
                self._end_wait()  # first: the next call is Python code, which may be interrupted
                self._mailbox.remove_waiter(self._response_wait)
        return progress != _LEFT

    def close_after_fork(self) -> None:
        """End the wait in a forked child, whose socket is the parent's, too."""
        self._response_wait.close_after_fork()

    def _try_lock(self) -> bool:
        """Acquire the lock, if the I/O thread sleeps.

        Until `_unlock` the garbage collector is paused: on CPython 3.11 any allocation may start a
        collection, and a finalizer of the application might wait for the I/O thread.

        Returns:
            True if it was acquired.
        """
        if not self._io_lock.try_acquire():
            return False
        pause()
        return True

    def _unlock(self) -> None:
        resume()
        self._io_lock.release()

    def _begin_wait(self) -> int:
        """Take the response if it has arrived; otherwise pause the selector for its connection.

        Returns:
            `_NOTHING` if the selector was paused, `_TAKEN`, or `_LEFT`.
        """
        if self._is_waiting or self._fetcher.lone_node_id < 0 or not self._try_lock():
            return _LEFT
        progress = _LEFT
        try:
            if self._find_request():
                progress = self._take()
                if progress == _NOTHING:
                    self._is_waiting = self._response_wait.pause_selector()
        except BaseException as error:  # noqa: BLE001 - the I/O thread ends with it
            self._fail(error)
        finally:
            self._unlock()
        if self._is_waiting:
            return _NOTHING
        return _TAKEN if progress == _TAKEN else _LEFT

    def _wait_and_take(self, is_ready: Callable[[], bool], until_ms: int | None) -> int:
        """Wait for the response, which may arrive in pieces, and take it.

        Returns:
            `_TAKEN`; `_NOTHING` at the deadline; `_LEFT` if the wait has ended early.
        """
        now_ms = self._clock.now_ms()
        ends_ms = now_ms + _SLICE_MS
        if until_ms is not None and until_ms < ends_ms:
            ends_ms = until_ms
        left_ms, progress = max(0, ends_ms - now_ms), _LEFT
        for _ in range(_PIECES_MAX):
            self._response_wait.wait(left_ms / 1_000)
            progress = self._try_take()
            if progress != _INCOMPLETE or is_ready():
                break
            left_ms = min(_REST_MS, ends_ms - self._clock.now_ms())
            if left_ms <= 0:
                break
        if progress == _NOTHING and self._clock.now_ms() >= ends_ms:
            return _NOTHING
        return _TAKEN if progress == _TAKEN else _LEFT

    def _try_take(self) -> int:
        """Take the response, unless the I/O thread is awake and does it."""
        if not self._try_lock():
            return _LEFT
        try:
            return self._take() if self._response_wait.is_only_in_flight() else _LEFT
        except BaseException as error:  # noqa: BLE001 - the I/O thread ends with it
            self._fail(error)
            return _LEFT
        finally:
            self._unlock()

    def _find_request(self) -> bool:
        """Whether the chosen broker has a fetch in flight, and no other request."""
        connection = self._client.connections.by_node_id.get(self._fetcher.lone_node_id)
        if connection is None:
            return False
        self._response_wait.set_request(connection)
        in_flight = self._response_wait.in_flight
        if in_flight is None or not isinstance(in_flight.request, FetchRequest):
            return False
        return self._response_wait.is_only_in_flight()

    def _end_wait(self) -> None:
        """Make the selector watch again, unless the next fetch has done so."""
        if not self._is_waiting:
            return
        self._is_waiting = False
        if not self._try_lock():
            return  # the I/O thread is awake, and its selector watches again
        try:
            self._response_wait.resume_selector()
            self._response_wait.clear_request()
        except BaseException as error:  # noqa: BLE001 - the I/O thread ends with it
            self._fail(error)
        finally:
            self._unlock()

    def _take(self) -> int:
        """Process the response, if it has arrived and is a lone one; send the next fetch."""
        response_wait, client = self._response_wait, self._client
        in_flight, frame = response_wait.in_flight, response_wait.peek()
        if in_flight is None or frame is None:
            arrived_bytes = response_wait.arrived_bytes()
            if 0 < arrived_bytes < response_wait.response_bytes_max:
                return _INCOMPLETE
            return _NOTHING if arrived_bytes < 0 else _LEFT
        answer = read_lone_fetch(frame, in_flight.version)
        if answer is None or client.has_completions():
            return _LEFT
        now_ms = self._clock.now_ms()
        self._buffer.take_freed()
        request = in_flight.request
        if isinstance(request, FetchRequest) and self._is_usual(request, answer, now_ms):
            self._send_again(request, frame, answer, now_ms)
            is_sent = True
        else:
            node_id = self._fetcher.lone_node_id
            response_wait.take_response(frame, now_ms)
            client.fire_completions()
            is_sent = self._fetcher.send_to(node_id, now_ms)
            self._buffer.forget_news()
        response_wait.resume_selector()
        response_wait.clear_request()
        self._is_waiting = False
        lasts = now_ms + self._request_timeout_ms >= self._sleeps_until_ms
        if not is_sent or not lasts or client.has_completions():
            client.wakeup()
        return _TAKEN

    def _is_usual(self, request: FetchRequest, answer: LoneFetch, now_ms: int) -> bool:
        """Whether the request can be sent again; not if memory is too short to find out."""
        connection, in_flight = self._response_wait.connection, self._response_wait.in_flight
        assert connection is not None and in_flight is not None  # noqa: S101, PT018 - as in `_take`
        try:
            return self._repeat.accepts(connection, in_flight, request, answer, now_ms)
        except MemoryError:
            return False

    def _send_again(
        self, request: FetchRequest, frame: Frame, answer: LoneFetch, now_ms: int
    ) -> None:
        """Process the response, and send the same fetch with the next offset."""
        connection, in_flight = self._response_wait.connection, self._response_wait.in_flight
        assert connection is not None and in_flight is not None  # noqa: S101, PT018 - as in `_take`
        self._response_wait.discard(frame)
        try:
            connection.count_response(frame)
            self._repeat.run(connection, in_flight, request, answer, now_ms)
        except Exception as error:  # noqa: BLE001 - most likely a MemoryError
            fail_later(connection, error)

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self._client.wakeup()
