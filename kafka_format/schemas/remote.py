"""__remote_log_metadata: the records of tiered storage about its segments."""

from kafka_format.message import Schema

_SEGMENT_ID = """
remoteLogSegmentId    RemoteLogSegmentIdEntry
    topicIdPartition  TopicIdPartitionEntry
        name          string
        id            uuid
        partition     int32
    id                uuid
"""

_SEGMENT = """
startOffset            int64
endOffset              int64
brokerId               int32
maxTimestampMs         int64
eventTimestampMs       int64
segmentLeaderEpochs    []SegmentLeaderEpochEntry
    leaderEpoch        int32
    offset             int64
segmentSizeInBytes     int32
customMetadata         bytes?  =null
remoteLogSegmentState  int8
txnIndexEmpty          bool  0+  tag0
"""

REMOTE_LOG_SEGMENT_METADATA_RECORD = Schema(
    "RemoteLogSegmentMetadataRecord", "0", "0+", _SEGMENT_ID + _SEGMENT
)

REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD = Schema(
    "RemoteLogSegmentMetadataUpdateRecord",
    "0",
    "0+",
    _SEGMENT_ID
    + """
brokerId               int32
eventTimestampMs       int64
customMetadata         bytes?  =null
remoteLogSegmentState  int8
""",
)

REMOTE_PARTITION_DELETE_METADATA_RECORD = Schema(
    "RemotePartitionDeleteMetadataRecord",
    "0",
    "0+",
    """
    topicIdPartition            TopicIdPartitionEntry
        name                    string
        id                      uuid
        partition               int32
    brokerId                    int32
    eventTimestampMs            int64
    remotePartitionDeleteState  int8
    """,
)

# Not in the topic, but in the snapshot files that the manager keeps on disk.
REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD = Schema(
    "RemoteLogSegmentMetadataSnapshotRecord", "0", "0+", "segmentId uuid\n" + _SEGMENT
)
