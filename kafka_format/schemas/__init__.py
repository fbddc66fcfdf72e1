"""Tables of all messages in a log directory that Kafka describes by schemas.

group          __consumer_offsets: offsets, classic and consumer groups
metadata       __cluster_metadata
raft           values of control records
remote         __remote_log_metadata
share          share groups, and __share_group_state
streams        streams groups
transaction    __transaction_state
"""

from kafka_format.schemas import group, metadata, raft, remote, share, streams, transaction

__all__ = ["group", "metadata", "raft", "remote", "share", "streams", "transaction"]
