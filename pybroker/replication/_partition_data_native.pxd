"""The types of `_partition_data_python`: objects, at places that native code of this package knows by this file."""


cdef class FetchPartition:
    cdef public object topic, topic_id, partition, topic_partition, fetch_offset, max_bytes
    cdef public object log_start_offset, current_leader_epoch, last_fetched_epoch


cdef class FetchPartitionData:
    cdef public object error_code, high_watermark, last_stable_offset, log_start_offset, records, aborted_transactions
    cdef public object diverging_epoch, preferred_read_replica, fetch_offset_metadata, cut_batch_size
