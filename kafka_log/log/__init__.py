"""One partition's log, with the operations of a broker.

fetch_data           what a read returns
leader_epochs        leader epochs and their start offsets (LeaderEpochFileCache)
local_log            the segments as one log: end, flush, roll, truncate, read (LocalLog)
log_append           the steps of an append
log_offsets          log start offset, high watermark, first unstable offset
log_removal          truncation, retention, replacement and deletion
offset_lookup        offsets by timestamp (ListOffsets)
partition_offsets    the offsets of a directory, read without a broker
topic_id             the topic id of an open log, and `partition.metadata`
unified_log          PartitionLog: append, read, truncate, delete (UnifiedLog)
unloaded_log         a log as it is on disk, opened without the loader
"""
