"""__transaction_state."""

from kafka_format.message import Schema

TRANSACTION_LOG_KEY = Schema("TransactionLogKey", "0", "none", "transactionalId string")

TRANSACTION_LOG_VALUE = Schema(
    "TransactionLogValue",
    "0-1",
    "1+",
    """
    producerId                        int64
    previousProducerId                int64  1+  tag0  =-1
    nextProducerId                    int64  1+  tag1  =-1
    producerEpoch                     int16
    nextProducerEpoch                 int16  1+  tag3  =-1
    transactionTimeoutMs              int32
    transactionStatus                 int8
    transactionPartitions             []PartitionsSchema?
        topic                         string
        partitionIds                  []int32
    transactionLastUpdateTimestampMs  int64
    transactionStartTimestampMs       int64
    clientTransactionVersion          int16  1+  tag2
    """,
)
