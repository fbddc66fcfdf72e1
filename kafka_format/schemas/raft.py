"""Values of control records. All except the end-transaction marker begin with their version."""

from kafka_format.message import Schema

CONTROL_RECORD_TYPE_SCHEMA = Schema("ControlRecordTypeSchema", "0", "none", "type int16")

END_TXN_MARKER = Schema("EndTxnMarker", "0", "none", "coordinatorEpoch int32")

LEADER_CHANGE_MESSAGE = Schema(
    "LeaderChangeMessage",
    "0-1",
    "0+",
    """
    version               int16
    leaderId              int32
    voters                []Voter
        voterId           int32
        voterDirectoryId  uuid  1+
    grantingVoters        []Voter
    """,
)

SNAPSHOT_HEADER_RECORD = Schema(
    "SnapshotHeaderRecord",
    "0",
    "0+",
    """
    version                    int16
    lastContainedLogTimestamp  int64
    """,
)

SNAPSHOT_FOOTER_RECORD = Schema("SnapshotFooterRecord", "0", "0+", "version int16")

K_RAFT_VERSION_RECORD = Schema(
    "KRaftVersionRecord",
    "0",
    "0+",
    """
    version       int16
    kRaftVersion  int16
    """,
)

VOTERS_RECORD = Schema(
    "VotersRecord",
    "0",
    "0+",
    """
    version                  int16
    voters                   []Voter
        voterId              int32
        voterDirectoryId     uuid
        endpoints            []Endpoint
            name             string
            host             string
            port             uint16
        kRaftVersionFeature  KRaftVersionFeature
            minSupportedVersion  int16
            maxSupportedVersion  int16
    """,
)
