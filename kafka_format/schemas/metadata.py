"""__cluster_metadata and its snapshots: all api keys of 4.3, and 29 of later brokers."""

from typing import Final

from kafka_format.message import Schema


def _record(name: str, versions: str, table: str) -> Schema:
    return Schema(name, versions, "0+", table)


_ENDPOINT_AND_FEATURE = """
endPoints                []{0}Endpoint
    name                 string
    host                 string
    port                 uint16
    securityProtocol     int16
features                 []{0}Feature
    name                 string
    minSupportedVersion  int16
    maxSupportedVersion  int16
"""

REGISTER_BROKER_RECORD = _record(
    "RegisterBrokerRecord",
    "0-4",
    """
brokerId             int32
isMigratingZkBroker  bool  2+
incarnationId        uuid
brokerEpoch          int64
"""
    + _ENDPOINT_AND_FEATURE.format("Broker")
    + """
rack                 string?
fenced               bool  =true
inControlledShutdown bool  1+
logDirs              []uuid   3+  tag0
cordonedLogDirs      []uuid?  4+  tag1  =null
""",
)

UNREGISTER_BROKER_RECORD = _record(
    "UnregisterBrokerRecord",
    "0",
    """
    brokerId     int32
    brokerEpoch  int64
    """,
)

TOPIC_RECORD = _record(
    "TopicRecord",
    "0",
    """
    name     string
    topicId  uuid
    """,
)

PARTITION_RECORD = _record(
    "PartitionRecord",
    "0-2",
    """
    partitionId             int32     =-1
    topicId                 uuid
    replicas                []int32
    isr                     []int32
    removingReplicas        []int32
    addingReplicas          []int32
    leader                  int32     =-1
    leaderRecoveryState     int8      0+  tag0
    leaderEpoch             int32     =-1
    partitionEpoch          int32     =-1
    directories             []uuid    1+
    eligibleLeaderReplicas  []int32?  2+  tag1  =null
    lastKnownElr            []int32?  2+  tag2  =null
    """,
)

CONFIG_RECORD = _record(
    "ConfigRecord",
    "0",
    """
    resourceType  int8
    resourceName  string
    name          string
    value         string?
    """,
)

PARTITION_CHANGE_RECORD = _record(
    "PartitionChangeRecord",
    "0-2",
    """
    partitionId             int32     =-1
    topicId                 uuid
    isr                     []int32?  0+  tag0  =null
    leader                  int32     0+  tag1  =-2
    replicas                []int32?  0+  tag2  =null
    removingReplicas        []int32?  0+  tag3  =null
    addingReplicas          []int32?  0+  tag4  =null
    leaderRecoveryState     int8      0+  tag5  =-1
    directories             []uuid?   1+  tag8  =null
    eligibleLeaderReplicas  []int32?  2+  tag6  =null
    lastKnownElr            []int32?  2+  tag7  =null
    """,
)

_BROKER_AND_EPOCH = """
id     int32
epoch  int64
"""

FENCE_BROKER_RECORD = _record("FenceBrokerRecord", "0", _BROKER_AND_EPOCH)

UNFENCE_BROKER_RECORD = _record("UnfenceBrokerRecord", "0", _BROKER_AND_EPOCH)

REMOVE_TOPIC_RECORD = _record("RemoveTopicRecord", "0", "topicId uuid")

DELEGATION_TOKEN_RECORD = _record(
    "DelegationTokenRecord",
    "0",
    """
    owner                string
    requester            string
    renewers             []string
    issueTimestamp       int64
    maxTimestamp         int64
    expirationTimestamp  int64
    tokenId              string
    """,
)

USER_SCRAM_CREDENTIAL_RECORD = _record(
    "UserScramCredentialRecord",
    "0",
    """
    name        string
    mechanism   int8
    salt        bytes
    storedKey   bytes
    serverKey   bytes
    iterations  int32
    """,
)

FEATURE_LEVEL_RECORD = _record(
    "FeatureLevelRecord",
    "0",
    """
    name          string
    featureLevel  int16
    """,
)

CLIENT_QUOTA_RECORD = _record(
    "ClientQuotaRecord",
    "0",
    """
    entity          []EntityData
        entityType  string
        entityName  string?
    key             string
    value           float64
    remove          bool
    """,
)

PRODUCER_IDS_RECORD = _record(
    "ProducerIdsRecord",
    "0",
    """
    brokerId        int32
    brokerEpoch     int64  =-1
    nextProducerId  int64
    """,
)

BROKER_REGISTRATION_CHANGE_RECORD = _record(
    "BrokerRegistrationChangeRecord",
    "0-3",
    """
    brokerId              int32
    brokerEpoch           int64
    fenced                int8     0+  tag0
    inControlledShutdown  int8     1+  tag1
    logDirs               []uuid   2+  tag2
    cordonedLogDirs       []uuid?  3+  tag3  =null
    """,
)

ACCESS_CONTROL_ENTRY_RECORD = _record(
    "AccessControlEntryRecord",
    "0",
    """
    id              uuid
    resourceType    int8
    resourceName    string
    patternType     int8
    principal       string
    host            string
    operation       int8
    permissionType  int8
    """,
)

REMOVE_ACCESS_CONTROL_ENTRY_RECORD = _record("RemoveAccessControlEntryRecord", "0", "id uuid")

NO_OP_RECORD = _record("NoOpRecord", "0", "")

ZK_MIGRATION_STATE_RECORD = _record("ZkMigrationStateRecord", "0", "zkMigrationState int8")

REMOVE_USER_SCRAM_CREDENTIAL_RECORD = _record(
    "RemoveUserScramCredentialRecord",
    "0",
    """
    name       string
    mechanism  int8
    """,
)

BEGIN_TRANSACTION_RECORD = _record("BeginTransactionRecord", "0", "name string? 0+ tag0 =null")

END_TRANSACTION_RECORD = _record("EndTransactionRecord", "0", "")

ABORT_TRANSACTION_RECORD = _record("AbortTransactionRecord", "0", "reason string? 0+ tag0 =null")

REMOVE_DELEGATION_TOKEN_RECORD = _record("RemoveDelegationTokenRecord", "0", "tokenId string")

REGISTER_CONTROLLER_RECORD = _record(
    "RegisterControllerRecord",
    "0",
    """
controllerId      int32
incarnationId     uuid
zkMigrationReady  bool
"""
    + _ENDPOINT_AND_FEATURE.format("Controller"),
)

CLEAR_ELR_RECORD = _record("ClearElrRecord", "0", "topicName string")

# Newer than 4.3.
UNREGISTER_CONTROLLER_RECORD = _record("UnregisterControllerRecord", "0", "controllerId int32")

BY_API_KEY: Final[dict[int, Schema]] = {
    0: REGISTER_BROKER_RECORD,
    1: UNREGISTER_BROKER_RECORD,
    2: TOPIC_RECORD,
    3: PARTITION_RECORD,
    4: CONFIG_RECORD,
    5: PARTITION_CHANGE_RECORD,
    7: FENCE_BROKER_RECORD,
    8: UNFENCE_BROKER_RECORD,
    9: REMOVE_TOPIC_RECORD,
    10: DELEGATION_TOKEN_RECORD,
    11: USER_SCRAM_CREDENTIAL_RECORD,
    12: FEATURE_LEVEL_RECORD,
    14: CLIENT_QUOTA_RECORD,
    15: PRODUCER_IDS_RECORD,
    17: BROKER_REGISTRATION_CHANGE_RECORD,
    18: ACCESS_CONTROL_ENTRY_RECORD,
    19: REMOVE_ACCESS_CONTROL_ENTRY_RECORD,
    20: NO_OP_RECORD,
    21: ZK_MIGRATION_STATE_RECORD,
    22: REMOVE_USER_SCRAM_CREDENTIAL_RECORD,
    23: BEGIN_TRANSACTION_RECORD,
    24: END_TRANSACTION_RECORD,
    25: ABORT_TRANSACTION_RECORD,
    26: REMOVE_DELEGATION_TOKEN_RECORD,
    27: REGISTER_CONTROLLER_RECORD,
    28: CLEAR_ELR_RECORD,
    29: UNREGISTER_CONTROLLER_RECORD,
}
