"""Compresses batches on one thread, with a codec's context and a buffer that it keeps.

Thread-safety: one thread at a time.
"""

from collections.abc import Callable

from kprod._core.record.compression_buffer import CompressionBuffer
from kprod.compression import Buffer
from kprod.producer.batch import ProducerBatch


class BatchCompressor:
    """Compresses one batch after the other.

    Attributes:
        compress: The codec: takes records, and returns their compressed form.
    """

    __slots__ = ("_buffer", "compress")

    def __init__(self, compress: Callable[[Buffer], Buffer]) -> None:
        """Start with an empty buffer.

        Args:
            compress: A function of `kprod.compression.compressor` that nothing else uses.
        """
        self.compress = compress
        self._buffer = CompressionBuffer()

    def pack(self, batch: ProducerBatch) -> None:
        """Compress a batch, and return the memory that this frees to the pool.

        Args:
            batch: A batch with records, not packed.

        Raises:
            Exception: The codec cannot compress it, or memory is short; the batch is as before.
        """
        builder = batch.builder
        builder.seal()
        batch.pack(self.compress(builder.records(self._buffer)))
