"""Reading one partition's part of a fetch response, with codecs and types filled in.

`kprod._core` knows neither codecs nor the types above it; this module hands it both. Layers above
import blocks from here.

Thread-safety: a block belongs to one thread at a time; records are immutable.
"""

from kprod._core.record.consumer_record import (
    ConsumerRecord,
    PartitionStamp,
    register_timestamp_types,
)
from kprod._core.record.decompression import register_decompressor
from kprod._core.record.record_block import RecordBlock
from kprod._core.record.record_iterator import register_types
from kprod.compression import Buffer, decompress
from kprod.model import Header, Record, TimestampType

__all__ = ["ConsumerRecord", "PartitionStamp", "RecordBlock"]


def _decompress(codec: int, payload: Buffer, magic: int, limit_bytes: int) -> bytes:
    return decompress(codec, payload, magic=magic, limit_bytes=limit_bytes)


register_types(Record, Header)
register_timestamp_types(TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)
register_decompressor(_decompress)
