"""__consumer_offsets, types 0 to 9 and 16: committed offsets, classic and consumer groups."""

from kafka_format.message import Schema


def group_key(name: str) -> Schema:
    return Schema(name, "0", "none", "groupId string")


def member_key(name: str) -> Schema:
    return Schema(name, "0", "none", "groupId string\nmemberId string")


_OFFSET_KEY = """
group      string
topic      string
partition  int32
"""

LEGACY_OFFSET_COMMIT_KEY = Schema("LegacyOffsetCommitKey", "0", "none", _OFFSET_KEY)

LEGACY_OFFSET_COMMIT_VALUE = Schema(
    "LegacyOffsetCommitValue",
    "0",
    "none",
    """
    offset           int64
    metadata         string
    commitTimestamp  int64
    """,
)

OFFSET_COMMIT_KEY = Schema("OffsetCommitKey", "0", "none", _OFFSET_KEY)

OFFSET_COMMIT_VALUE = Schema(
    "OffsetCommitValue",
    "0-4",
    "4+",
    """
    offset           int64
    leaderEpoch      int32   3+  =-1
    metadata         string
    commitTimestamp  int64
    expireTimestamp  int64   1   =-1
    topicId          uuid    4+  tag0
    """,
)

GROUP_METADATA_KEY = Schema("GroupMetadataKey", "0", "none", "group string")

GROUP_METADATA_VALUE = Schema(
    "GroupMetadataValue",
    "0-4",
    "4+",
    """
    protocolType           string
    generation             int32
    protocol               string?
    leader                 string?
    currentStateTimestamp  int64    2+  =-1
    members                []MemberMetadata
        memberId           string
        groupInstanceId    string?  3+  =null
        clientId           string
        clientHost         string
        rebalanceTimeout   int32    1+  =-1
        sessionTimeout     int32
        subscription       bytes
        assignment         bytes
    """,
)

# Subscription and assignment of the members of a classic group of protocol type `consumer`, each
# after an int16 version.
CONSUMER_PROTOCOL_SUBSCRIPTION = Schema(
    "ConsumerProtocolSubscription",
    "0-3",
    "none",
    """
    topics           []string
    userData         bytes?    =null
    ownedPartitions  []TopicPartition  1+
        topic        string    1+
        partitions   []int32   1+
    generationId     int32     2+  =-1
    rackId           string?   3+  =null
    """,
)

CONSUMER_PROTOCOL_ASSIGNMENT = Schema(
    "ConsumerProtocolAssignment",
    "0-3",
    "none",
    """
    assignedPartitions  []TopicPartition
        topic           string
        partitions      []int32
    userData            bytes?  =null
    """,
)

CONSUMER_GROUP_METADATA_KEY = group_key("ConsumerGroupMetadataKey")

CONSUMER_GROUP_METADATA_VALUE = Schema(
    "ConsumerGroupMetadataValue",
    "0",
    "0+",
    """
    epoch         int32
    metadataHash  int64  0+  tag0
    """,
)

# Replaced by metadataHash in 4.1; later brokers only write its tombstones.
PARTITION_METADATA = """
topics                 []TopicMetadata
    topicId            uuid
    topicName          string
    numPartitions      int32
    partitionMetadata  []PartitionMetadata
        partition      int32
        racks          []string
"""

CONSUMER_GROUP_PARTITION_METADATA_KEY = group_key("ConsumerGroupPartitionMetadataKey")

CONSUMER_GROUP_PARTITION_METADATA_VALUE = Schema(
    "ConsumerGroupPartitionMetadataValue", "0", "0+", PARTITION_METADATA
)

CONSUMER_GROUP_MEMBER_METADATA_KEY = member_key("ConsumerGroupMemberMetadataKey")

# The default of classicMemberMetadata is an empty struct: its usual value, null, is written.
CONSUMER_GROUP_MEMBER_METADATA_VALUE = Schema(
    "ConsumerGroupMemberMetadataValue",
    "0",
    "0+",
    """
    instanceId             string?
    rackId                 string?
    clientId               string
    clientHost             string
    subscribedTopicNames   []string
    subscribedTopicRegex   string?
    rebalanceTimeoutMs     int32  =-1
    serverAssignor         string?
    classicMemberMetadata  ClassicMemberMetadata?  0+  tag0
        sessionTimeoutMs   int32
        supportedProtocols []ClassicProtocol
            name           string
            metadata       bytes
    """,
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = group_key(
    "ConsumerGroupTargetAssignmentMetadataKey"
)

TARGET_ASSIGNMENT_METADATA = """
assignmentEpoch      int32
assignmentTimestamp  int64  0+  tag0
"""

CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Schema(
    "ConsumerGroupTargetAssignmentMetadataValue", "0", "0+", TARGET_ASSIGNMENT_METADATA
)

CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = member_key("ConsumerGroupTargetAssignmentMemberKey")

TARGET_ASSIGNMENT_MEMBER = """
topicPartitions  []TopicPartition
    topicId      uuid
    partitions   []int32
"""

CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Schema(
    "ConsumerGroupTargetAssignmentMemberValue", "0", "0+", TARGET_ASSIGNMENT_MEMBER
)

CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = member_key("ConsumerGroupCurrentMemberAssignmentKey")

# The default of assignmentEpochs is empty, not null.
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Schema(
    "ConsumerGroupCurrentMemberAssignmentValue",
    "0",
    "0+",
    """
    memberEpoch                  int32
    previousMemberEpoch          int32
    state                        int8
    assignedPartitions           []TopicPartitions
        topicId                  uuid
        partitions               []int32
        assignmentEpochs         []int32?  0+  tag0
    partitionsPendingRevocation  []TopicPartitions
    """,
)

CONSUMER_GROUP_REGULAR_EXPRESSION_KEY = Schema(
    "ConsumerGroupRegularExpressionKey",
    "0",
    "none",
    """
    groupId            string
    regularExpression  string
    """,
)

CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE = Schema(
    "ConsumerGroupRegularExpressionValue",
    "0",
    "0+",
    """
    topics     []string
    version    int64
    timestamp  int64
    """,
)
