"""Share groups: __consumer_offsets, types 9 to 15, and __share_group_state."""

from kafka_format.message import Schema
from kafka_format.schemas.group import (
    TARGET_ASSIGNMENT_MEMBER,
    TARGET_ASSIGNMENT_METADATA,
    group_key,
    member_key,
)

# In the previews of 3.9 and 4.0; removed in 4.1.
SHARE_GROUP_PARTITION_METADATA_KEY = group_key("ShareGroupPartitionMetadataKey")

SHARE_GROUP_PARTITION_METADATA_VALUE = Schema(
    "ShareGroupPartitionMetadataValue",
    "0",
    "0+",
    """
    initializedTopics  []TopicPartitionsInfo
        topicId        uuid
        topicName      string
        partitions     []int32
    deletingTopics     []TopicInfo
        topicId        uuid
        topicName      string
    """,
)

SHARE_GROUP_MEMBER_METADATA_KEY = member_key("ShareGroupMemberMetadataKey")

SHARE_GROUP_MEMBER_METADATA_VALUE = Schema(
    "ShareGroupMemberMetadataValue",
    "0",
    "0+",
    """
    rackId                string?
    clientId              string
    clientHost            string
    subscribedTopicNames  []string
    """,
)

SHARE_GROUP_METADATA_KEY = group_key("ShareGroupMetadataKey")

SHARE_GROUP_METADATA_VALUE = Schema(
    "ShareGroupMetadataValue",
    "0",
    "0+",
    """
    epoch         int32
    metadataHash  int64
    """,
)

# Version 0 as it was before 4.1, when share groups were a preview.
SHARE_GROUP_METADATA_VALUE_BEFORE_4_1 = Schema(
    "ShareGroupMetadataValueBefore41", "0", "0+", "epoch int32"
)

SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = group_key("ShareGroupTargetAssignmentMetadataKey")

SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Schema(
    "ShareGroupTargetAssignmentMetadataValue", "0", "0+", TARGET_ASSIGNMENT_METADATA
)

SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = member_key("ShareGroupTargetAssignmentMemberKey")

SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Schema(
    "ShareGroupTargetAssignmentMemberValue", "0", "0+", TARGET_ASSIGNMENT_MEMBER
)

SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = member_key("ShareGroupCurrentMemberAssignmentKey")

SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Schema(
    "ShareGroupCurrentMemberAssignmentValue",
    "0",
    "0+",
    """
    memberEpoch          int32
    previousMemberEpoch  int32
    state                int8
    assignedPartitions   []TopicPartitions
        topicId          uuid
        partitions       []int32
    """,
)

SHARE_GROUP_STATE_PARTITION_METADATA_KEY = group_key("ShareGroupStatePartitionMetadataKey")

SHARE_GROUP_STATE_PARTITION_METADATA_VALUE = Schema(
    "ShareGroupStatePartitionMetadataValue",
    "0",
    "0+",
    """
    initializingTopics  []TopicPartitionsInfo
        topicId         uuid
        topicName       string
        partitions      []int32
    initializedTopics   []TopicPartitionsInfo
    deletingTopics      []TopicInfo
        topicId         uuid
        topicName       string
    """,
)

_SHARE_PARTITION = """
groupId    string
topicId    uuid
partition  int32
"""

SHARE_SNAPSHOT_KEY = Schema("ShareSnapshotKey", "0", "none", _SHARE_PARTITION)

SHARE_SNAPSHOT_VALUE = Schema(
    "ShareSnapshotValue",
    "0",
    "0+",
    """
    snapshotEpoch          int32
    stateEpoch             int32
    leaderEpoch            int32
    startOffset            int64
    deliveryCompleteCount  int32  0+  tag0  =-1
    createTimestamp        int64
    writeTimestamp         int64
    stateBatches           []StateBatch
        firstOffset        int64
        lastOffset         int64
        deliveryState      int8
        deliveryCount      int16
    """,
)

SHARE_UPDATE_KEY = Schema("ShareUpdateKey", "0", "none", _SHARE_PARTITION)

SHARE_UPDATE_VALUE = Schema(
    "ShareUpdateValue",
    "0",
    "0+",
    """
    snapshotEpoch          int32
    leaderEpoch            int32
    startOffset            int64
    deliveryCompleteCount  int32  0+  tag0  =-1
    stateBatches           []StateBatch
        firstOffset        int64
        lastOffset         int64
        deliveryState      int8
        deliveryCount      int16
    """,
)
