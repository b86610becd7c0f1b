"""A proxy on loopback between a client and one broker, which forwards frame by frame.

It can lose a connection at a byte, and it can hold, cut and reject connections for a while.

Thread-safety: it has a thread and an event loop of its own; its methods may be called from any.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self

from tests.sweep.spoiling import STALL_MS, ByteCut, ConnectionCut, Ending

HOST = "127.0.0.1"
_SIZE = struct.Struct(">i")
_RESET = struct.pack("ii", 1, 0)  # linger for no time: close sends a reset
_START_S = 10.0
_CLOSING_S = 0.05

_Writer = asyncio.StreamWriter


class Proxy:
    """Forwards connections to a port.

    Args:
        target: The broker's port.

    Attributes:
        port: The proxy's own.
        accepted: Connections so far.
    """

    def __init__(self, target: int) -> None:
        self.port = -1
        self.accepted = 0
        self._target = target
        self._cut: tuple[ByteCut, Ending] | None = None
        self._is_refusing = False
        self._open = asyncio.Event()  # clear while everything is held
        self._writers: set[_Writer] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def lose_at(self, cut: ByteCut | None, ending: Ending = Ending.RESET) -> None:
        """Lose a connection at a byte; None loses none."""
        self._soon(lambda: setattr(self, "_cut", None if cut is None else (cut, ending)))

    def hold(self, is_held: bool) -> None:
        """Forward nothing, or continue."""
        self._soon(self._open.clear if is_held else self._open.set)

    def refuse(self, is_refusing: bool) -> None:
        """Close each new connection at once, or continue."""
        self._soon(lambda: setattr(self, "_is_refusing", is_refusing))

    def reset_all(self) -> None:
        """Reset every connection."""
        self._soon(self._reset_all)

    def _reset_all(self) -> None:
        for writer in list(self._writers):
            _reset(writer)

    def _soon(self, call: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(call)

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_START_S)

    async def _start(self) -> None:
        self._open.set()
        server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        self._server = server

    async def _stop(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(_CLOSING_S)  # sockets are closed in a later turn of the loop

    async def _serve(self, reader: asyncio.StreamReader, writer: _Writer) -> None:
        self.accepted += 1
        if self._is_refusing:
            _reset(writer)
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, self._target)
        except OSError:  # the broker is down
            _reset(writer)
            return
        self._writers = {kept for kept in self._writers if not kept.is_closing()}
        self._writers |= {writer, far_writer}
        connection = None if self._cut is None else self._cut[0].new_connection()
        request = connection.request if connection else len
        response = connection.response if connection else len
        both = writer, far_writer
        for work in (
            self._pump(reader, far_writer, request, connection, both),
            self._pump(far_reader, writer, response, connection, both),
        ):
            task = asyncio.ensure_future(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: _Writer,
        side: Callable[[bytes], int],
        connection: ConnectionCut | None,
        both: tuple[_Writer, _Writer],
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                size = await reader.readexactly(_SIZE.size)
                frame = size + await reader.readexactly(_SIZE.unpack(size)[0])
                await self._open.wait()
                was_over = connection is not None and connection.is_over
                leaving = side(frame)
                if leaving:
                    writer.write(frame[:leaving])
                    await writer.drain()
                if connection is not None and connection.is_over and not was_over:
                    await self._lose(both)
                    return
        if connection is None or not connection.is_over:
            writer.close()

    async def _lose(self, both: tuple[_Writer, _Writer]) -> None:
        assert self._cut is not None
        ending = self._cut[1]
        if ending is Ending.STALL:
            await asyncio.sleep(STALL_MS / 1_000)
        for writer in both:
            if ending is Ending.CLOSED:
                writer.close()
            else:
                _reset(writer)


def _reset(writer: _Writer) -> None:
    connection = writer.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
