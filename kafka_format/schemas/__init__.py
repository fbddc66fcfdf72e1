"""The tables: every schema-described message that a broker puts in a log directory.

    group         __consumer_offsets: offsets, classic and consumer groups; the consumer protocol
    share         __consumer_offsets: share groups; __share_group_state
    streams       __consumer_offsets: streams groups
    transaction   __transaction_state
    metadata      __cluster_metadata
    raft          control records of every log
    remote        __remote_log_metadata

Names, order, versions and defaults are those of Apache Kafka 4.3.1, with the messages that only
older (3.9) or newer brokers know. The notation is told in kafka_format.message.
"""

from kafka_format.schemas import group, metadata, raft, remote, share, streams, transaction

__all__ = ["group", "metadata", "raft", "remote", "share", "streams", "transaction"]
