"""__consumer_offsets, types 17 to 24: streams groups."""

from kafka_format.message import Schema
from kafka_format.schemas.group import (
    PARTITION_METADATA,
    TARGET_ASSIGNMENT_METADATA,
    group_key,
    member_key,
)

STREAMS_GROUP_METADATA_KEY = group_key("StreamsGroupMetadataKey")

# The default of lastAssignmentConfigs is empty, not null.
STREAMS_GROUP_METADATA_VALUE = Schema(
    "StreamsGroupMetadataValue",
    "0",
    "0+",
    """
    epoch                   int32
    metadataHash            int64
    validatedTopologyEpoch  int32  0+  tag0  =-1
    lastAssignmentConfigs   []LastAssignmentConfig?  0+  tag1
        key                 string
        value               string
    """,
)

# Written during the development of 4.0; removed in 4.1.
STREAMS_GROUP_PARTITION_METADATA_KEY = group_key("StreamsGroupPartitionMetadataKey")

STREAMS_GROUP_PARTITION_METADATA_VALUE = Schema(
    "StreamsGroupPartitionMetadataValue", "0", "0+", PARTITION_METADATA
)

STREAMS_GROUP_MEMBER_METADATA_KEY = member_key("StreamsGroupMemberMetadataKey")

STREAMS_GROUP_MEMBER_METADATA_VALUE = Schema(
    "StreamsGroupMemberMetadataValue",
    "0",
    "0+",
    """
    instanceId          string?
    rackId              string?
    clientId            string
    clientHost          string
    rebalanceTimeoutMs  int32  =-1
    topologyEpoch       int32
    processId           string
    userEndpoint        Endpoint?  =null
        host            string
        port            uint16
    clientTags          []KeyValue
        key             string
        value           string
    """,
)

STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = group_key("StreamsGroupTargetAssignmentMetadataKey")

STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Schema(
    "StreamsGroupTargetAssignmentMetadataValue", "0", "0+", TARGET_ASSIGNMENT_METADATA
)

STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = member_key("StreamsGroupTargetAssignmentMemberKey")

STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Schema(
    "StreamsGroupTargetAssignmentMemberValue",
    "0",
    "0+",
    """
    activeTasks        []TaskIds
        subtopologyId  string
        partitions     []int32
    standbyTasks       []TaskIds
    warmupTasks        []TaskIds
    """,
)

STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = member_key("StreamsGroupCurrentMemberAssignmentKey")

# The default of assignmentEpochs is empty, not null.
STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Schema(
    "StreamsGroupCurrentMemberAssignmentValue",
    "0",
    "0+",
    """
    memberEpoch                    int32
    previousMemberEpoch            int32
    state                          int8
    activeTasks                    []TaskIds
        subtopologyId              string
        partitions                 []int32
        assignmentEpochs           []int32?  0+  tag0
    standbyTasks                   []TaskIds
    warmupTasks                    []TaskIds
    activeTasksPendingRevocation   []TaskIds
    standbyTasksPendingRevocation  []TaskIds
    warmupTasksPendingRevocation   []TaskIds
    """,
)

STREAMS_GROUP_TOPOLOGY_KEY = group_key("StreamsGroupTopologyKey")

STREAMS_GROUP_TOPOLOGY_VALUE = Schema(
    "StreamsGroupTopologyValue",
    "0",
    "0+",
    """
    epoch                            int32
    subtopologies                    []Subtopology
        subtopologyId                string
        sourceTopics                 []string
        sourceTopicRegex             []string
        stateChangelogTopics         []TopicInfo
            name                     string
            partitions               int32
            replicationFactor        int16
            topicConfigs             []TopicConfig
                key                  string
                value                string
        repartitionSinkTopics        []string
        repartitionSourceTopics      []TopicInfo
        copartitionGroups            []CopartitionGroup
            sourceTopics             []int16
            sourceTopicRegex         []int16
            repartitionSourceTopics  []int16
    """,
)

# Newer than 4.3.
STREAMS_GROUP_TARGET_ASSIGNMENT_RESOLVED_TOPIC_IDS_KEY = group_key(
    "StreamsGroupTargetAssignmentResolvedTopicIdsKey"
)

STREAMS_GROUP_TARGET_ASSIGNMENT_RESOLVED_TOPIC_IDS_VALUE = Schema(
    "StreamsGroupTargetAssignmentResolvedTopicIdsValue",
    "0",
    "0+",
    """
    assignmentEpoch                int32
    resolvedTopicIdsBySubtopology  []ResolvedTopicIds
        subtopologyId              string
        topicIds                   []uuid
    """,
)
