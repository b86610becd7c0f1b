"""Converts message sets (formats V0 and V1) to V2 batches, and batches back for old consumers.

The log holds only V2 batches. Records of old producers are converted when they are appended, and
records for old consumers when they are read.

Rules.
    Produce 0 and 1 accept magic 0, Produce 2 accepts 0 and 1; anything else is INVALID_RECORD.
    A message that is cut off at the end is dropped; a set without any whole message is
    INVALID_RECORD.
    A message or wrapper larger than `max.message.bytes` is MESSAGE_TOO_LARGE, as in Kafka. So are
    wrappers that together unpack to more than `UNPACKED_SHARE_MAX` times that limit, since each
    message in them is read and written again. Fetch 0 and 1 get magic 0, Fetch 2 and 3 magic 1;
    zstd cannot be converted to either.

Thread-safety: pure functions.
Source: Kafka LogValidator and RecordsUtil.downConvert (3.9.1).
"""

from kprod._core.layout import BatchLayout, Magic
from kprod._core.record.batch_rewrite import rewrite_offsets
from kprod._core.record.message_set_reader import MessageSetReader
from kprod.broker.rejection import Rejected
from kprod.compression import decompress
from kprod.errors import CorruptRecord, LocalProtocolError, UnsupportedCodec
from kprod.protocol.error_table import ErrorCode
from kprod.record.conversion import down_convert, up_convert

PRODUCE_VERSION_WITH_MAGIC_1 = 2
FETCH_VERSION_WITH_MAGIC_1 = 2


UNPACKED_SHARE_MAX = 8
"""How many times `max.message.bytes` the wrappers of one message set may unpack to, together.

Producers limit a batch's uncompressed size to less than `max.message.bytes`, so that a wrapper of
theirs counts less than 1; a gzip of zeros reaches a thousand.
"""


def up_convert_batches(
    records: memoryview | None, *, api_version: int, bytes_max: int
) -> list[memoryview]:
    """Convert a message set to batches such as a new producer would send.

    Args:
        records: The records field of the request.
        api_version: Version of the Produce request, 0 to 2.
        bytes_max: Maximum size of a message or wrapper.

    Returns:
        At least one writable batch with base offset 0.

    Raises:
        Rejected: The bytes are not a message set that this version may carry.
    """
    if not records or len(records) <= BatchLayout.MAGIC_OFFSET:
        raise Rejected(ErrorCode.INVALID_RECORD, "there is no message")
    magic = records[BatchLayout.MAGIC_OFFSET]
    newest = Magic.MAGIC_V1 if api_version >= PRODUCE_VERSION_WITH_MAGIC_1 else Magic.MAGIC_V0
    if magic > newest:
        raise Rejected(
            ErrorCode.INVALID_RECORD,
            f"Produce version {api_version} takes magic {newest:d} at most, not {magic}",
        )
    try:
        _check_sizes(records, bytes_max)
        raised = [memoryview(bytearray(it)) for it in up_convert(records, base_offset=0)]
    except (CorruptRecord, LocalProtocolError) as error:
        raise Rejected(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if not raised:
        raise Rejected(ErrorCode.INVALID_RECORD, f"{len(records)} bytes hold no whole message")
    for batch in raised:
        rewrite_offsets(batch, 0, -1)
    return raised


def _check_sizes(records: memoryview, bytes_max: int) -> None:
    """Reject a message that is too large, or wrappers that unpack to too much; unpacks them all."""
    unpacked_bytes = 0

    def unpack(codec: int, payload: memoryview, magic: int) -> bytes:
        nonlocal unpacked_bytes
        unpacked = decompress(codec, payload, magic=magic)
        unpacked_bytes += len(unpacked)
        return unpacked

    for message in MessageSetReader(records, decompress=unpack, check_crc=False):
        if message.size_bytes > bytes_max:
            text = (
                f"a message of {message.size_bytes} bytes; {bytes_max} are allowed "
                "(max.message.bytes)"
            )
            raise Rejected(ErrorCode.MESSAGE_TOO_LARGE, text)
        if message.is_wrapper:
            message.messages()  # decompresses the wrapper, so that `unpack` counts its bytes
        if unpacked_bytes > UNPACKED_SHARE_MAX * bytes_max:
            text = (
                f"wrappers unpack to more than {UNPACKED_SHARE_MAX} x {bytes_max} bytes "
                "(max.message.bytes)"
            )
            raise Rejected(ErrorCode.MESSAGE_TOO_LARGE, text)


def lowered(encoded: bytes, *, api_version: int) -> bytes:
    """Convert batches to a message set.

    Args:
        encoded: Whole batches from the log.
        api_version: Version of the Fetch request, 0 to 3.

    Returns:
        The message set.

    Raises:
        Rejected: A batch cannot be converted to the older format.
    """
    magic = Magic.MAGIC_V1 if api_version >= FETCH_VERSION_WITH_MAGIC_1 else Magic.MAGIC_V0
    try:
        return down_convert(encoded, magic, check_crc=False)
    except UnsupportedCodec as error:
        raise Rejected(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from error
