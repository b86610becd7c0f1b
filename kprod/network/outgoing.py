# cython: annotation_typing=False, nonecheck=True
"""A request that is being written: its pieces, and how much the socket has accepted.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

A Produce request has many pieces (headers, and the chunks that hold records), written without
copying by scatter/gather. The pieces are referenced until the response arrives or the connection is
closed: a batch's memory must not be reused while a socket may still read it.

Invariants.
    Pieces are written in order, each byte once. `written_bytes` never decreases; above 0 the peer
    may execute the request.

Thread-safety: one thread. No I/O here.
Source: sendmsg(2); KAFKA-19012 for the references to pieces.
"""

import os

from kprod._core.memory.chunk import ChunkPart

Piece = bytes | bytearray | memoryview | ChunkPart

IOV_MAX_POSIX = 16  # the minimum that POSIX requires
IOV_MAX_USED = 1024  # Linux and macOS


def iov_max() -> int:
    """Return how many pieces one `sendmsg` accepts.

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
            pieces: Contiguous buffers with one-byte items, unchanged until the frame is dropped.
                The length prefix is part of them.
        """
        self.pieces = pieces
        self.size_bytes: int = 0
        for piece in pieces:
            self.size_bytes += len(piece)
        self.written_bytes: int = 0
        self._index = 0  # the first piece not written completely
        self._offset = 0  # bytes of that piece that are written

    def renew(self, piece: bytes) -> None:
        """Start again with another piece in place of all others, which were written.

        Args:
            piece: The new bytes.
        """
        if len(self.pieces) > 1:
            del self.pieces[1:]
        self.pieces[0] = piece
        self.size_bytes = len(piece)
        self.written_bytes = self._index = self._offset = 0

    @property
    def is_written(self) -> bool:
        """Whether the socket has accepted all bytes."""
        return self.written_bytes >= self.size_bytes

    def next_pieces(self, count_max: int, bytes_max: int) -> list[Piece]:
        """Return the pieces to write next.

        Args:
            count_max: Maximum number of pieces, at least 1.
            bytes_max: Stop after the piece that reaches it; at least 1.

        Returns:
            At least one piece, unless everything is written.
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
        """Record that the socket accepted bytes.

        Args:
            count_bytes: The socket's result, from 0 to the number of bytes given to it.
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
