# cython: annotation_typing=False, nonecheck=True
"""One request on its way out: a list of pieces and how much of it the socket has taken.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

A Produce request is many pieces (headers, and the chunks that records lie in), written where they
lie by scatter/gather. The pieces are held until the request is answered or its connection is gone:
a batch's memory must not be used again while a socket might still read it.

Invariants.
    Pieces go out in order, every byte once.
    `written_bytes` never falls; above 0 the peer may act on the request.

Thread-safety: one thread. No socket here.
Source: sendmsg(2); KAFKA-19012 for why pieces are held.
"""

import os

from kprod._core.memory.chunk import ChunkPart

Piece = bytes | bytearray | memoryview | ChunkPart

IOV_MAX_POSIX = 16  # the least that POSIX allows a system to have
IOV_MAX_USED = 1024  # Linux and macOS


def iov_max() -> int:
    """How many pieces one `sendmsg` may take.

    Returns:
        The system's limit, at most 1,024.
    """
    try:
        limit = os.sysconf("SC_IOV_MAX")
    except (AttributeError, ValueError, OSError):
        return IOV_MAX_USED
    return IOV_MAX_USED if limit < IOV_MAX_POSIX else min(limit, IOV_MAX_USED)


class OutgoingFrame:
    """The pieces of one request and a position in them."""

    def __init__(self, pieces: list[Piece]) -> None:
        """Start at the first byte.

        Args:
            pieces: Contiguous, with one-byte items, unchanged until the frame is dropped. The
                length prefix is part of them.
        """
        self.pieces = pieces
        self.size_bytes: int = 0
        for piece in pieces:
            self.size_bytes += len(piece)
        self.written_bytes: int = 0
        self._index = 0  # of the first piece not written whole
        self._offset = 0  # bytes of that piece that are written

    @property
    def is_written(self) -> bool:
        """Whether the socket has taken all of it."""
        return self.written_bytes >= self.size_bytes

    def next_pieces(self, count_max: int, bytes_max: int) -> list[Piece]:
        """What to hand to the socket next.

        Args:
            count_max: Most pieces, at least 1.
            bytes_max: Stop after the piece that reaches it; at least 1.

        Returns:
            At least one piece unless all is written.
        """
        chosen: list[Piece] = []
        total_bytes = 0
        for piece in self.pieces[self._index : self._index + count_max]:
            part = memoryview(piece)[self._offset :] if self._offset and not chosen else piece
            chosen.append(part)
            total_bytes += len(part)
            if total_bytes >= bytes_max:
                break
        return chosen

    def advance(self, count_bytes: int) -> None:
        """Note that the socket took bytes.

        Args:
            count_bytes: As the socket said, from 0 to the count that was handed to it.
        """
        self.written_bytes += count_bytes
        if self.written_bytes >= self.size_bytes:
            self._index, self._offset = len(self.pieces), 0
            return
        rest = self._offset + count_bytes
        while self._index < len(self.pieces) and rest >= len(self.pieces[self._index]):
            rest -= len(self.pieces[self._index])
            self._index += 1
        self._offset = rest
