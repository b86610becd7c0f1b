# Wire numbers of the record formats, defined once for C and Python.
# Source: Kafka DefaultRecordBatch, DefaultRecord, LegacyRecord, AbstractLegacyRecordBatch
# (clients 4.3.1).

cpdef enum BatchLayout:
    BASE_OFFSET_OFFSET = 0
    BATCH_LENGTH_OFFSET = 8
    PARTITION_LEADER_EPOCH_OFFSET = 12
    MAGIC_OFFSET = 16
    CRC_OFFSET = 17
    ATTRIBUTES_OFFSET = 21
    LAST_OFFSET_DELTA_OFFSET = 23
    BASE_TIMESTAMP_OFFSET = 27
    MAX_TIMESTAMP_OFFSET = 35
    PRODUCER_ID_OFFSET = 43
    PRODUCER_EPOCH_OFFSET = 51
    BASE_SEQUENCE_OFFSET = 53
    RECORD_COUNT_OFFSET = 57
    BATCH_OVERHEAD_BYTES = 61
    # The base offset and the length field, which the batch length does not include.
    LOG_OVERHEAD_BYTES = 12

cpdef enum BatchAttributes:
    CODEC_MASK = 0x07
    TIMESTAMP_TYPE_MASK = 0x08
    TRANSACTIONAL_MASK = 0x10
    CONTROL_MASK = 0x20
    DELETE_HORIZON_MASK = 0x40

cpdef enum RecordLayout:
    VARINT_BYTES_MAX = 5
    VARLONG_BYTES_MAX = 10
    # length varint 5, timestamp delta varlong 10, offset delta varint 5, attributes 1
    RECORD_OVERHEAD_BYTES_MAX = 21

cpdef enum MessageLayout:
    MESSAGE_OFFSET_OFFSET = 0
    MESSAGE_SIZE_OFFSET = 8
    MESSAGE_CRC_OFFSET = 12
    MESSAGE_MAGIC_OFFSET = 16
    MESSAGE_ATTRIBUTES_OFFSET = 17
    MESSAGE_TIMESTAMP_OFFSET = 18
    # Bytes from the checksum to the end, without key and value.
    MESSAGE_V0_OVERHEAD_BYTES = 14
    MESSAGE_V1_OVERHEAD_BYTES = 22

cpdef enum Magic:
    MAGIC_V0 = 0
    MAGIC_V1 = 1
    MAGIC_V2 = 2
