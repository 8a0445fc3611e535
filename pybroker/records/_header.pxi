"""The positions in a batch's header, checked against `batch.py`, which the module that includes this has imported."""

cdef enum:
    BATCH_LENGTH_AT = 8
    LEADER_EPOCH_AT = 12
    MAGIC_AT = 16
    CRC_AT = 17
    ATTRIBUTES_AT = 21
    LAST_OFFSET_DELTA_AT = 23
    BASE_TIMESTAMP_AT = 27
    MAX_TIMESTAMP_AT = 35
    PRODUCER_ID_AT = 43
    PRODUCER_EPOCH_AT = 51
    BASE_SEQUENCE_AT = 53
    RECORD_COUNT_AT = 57
    HEADER_SIZE = 61

if [
    BATCH_LENGTH_AT, LEADER_EPOCH_AT, MAGIC_AT, CRC_AT, ATTRIBUTES_AT, LAST_OFFSET_DELTA_AT, MAX_TIMESTAMP_AT, PRODUCER_ID_AT,
    HEADER_SIZE,
] != [
    batch.BATCH_LENGTH_AT, batch.LEADER_EPOCH_AT, batch.MAGIC_AT, batch.CRC_AT, batch.ATTRIBUTES_AT, batch.LAST_OFFSET_DELTA_AT,
    batch.MAX_TIMESTAMP_AT, batch.PRODUCER_ID_AT, batch.HEADER_SIZE,
]:
    raise ImportError("the positions in a batch's header differ from those in batch.py")
