"""What is wrong in one broker: what its log dirs, metadata and internal topics say of each other.

broker_checks       one broker: what its log dirs, metadata and internal topics say of each other
checkpoint_checks   the offset checkpoints against the logs
committed_offsets   commits of groups against the logs they are for
directories         findings from names and directories
identities          meta.properties, partition.metadata and the cluster metadata
leftovers           files and directories that unfinished operations left
remote_storage      segments in tiered storage
transaction_checks  open and hanging transactions, markers, the coordinator's records
"""
