"""What is wrong in a log directory: one module per kind of evidence.

batch_headers        magic, attributes, leader epochs, and bytes that no reader looks at
between_segments     lost segments, gaps and overlaps
broker_checks        one broker: what its log dirs, metadata and internal topics say of each other
checkpoint_checks    the offset checkpoints against the logs
committed_offsets    commits of groups against the logs they are for
compaction_checks    what stops the cleaner, and what it has left
continuity           from which offset on nothing is missing
control_batches      transaction markers, and other control records
directories          findings from names and directories
facts                what checks of several files or partitions need to know of each
finding              Finding: what is wrong, where, and by which rule
identities           meta.properties, partition.metadata and the cluster metadata
index_entries        entries of an offset and a time index against the batches of the log
leader_epochs        leader-epoch-checkpoint against the batches
leftovers            files and directories that unfinished operations left
log_pieces           a piece of a log as the checks see it
logs                 batches, checksums, and the end of a `.log` file
offsets_in_log       offsets and timestamps of batches and of their records
partition_checks     one partition: what its files say of each other
producer_replay      the producers of a partition, batch by batch
producer_snapshots   a snapshot against the producers that the log implies
records              records of Kafka's internal topics
remote_storage       segments in tiered storage
rules/               the rules by their ids
segment_checks       one segment: its `.log`, and the index files next to it
segment_indexes      the indexes of one segment, checked while its log is read
segment_totals       the sums of a log, for checks between segments
sequences            sequences and epochs of each producer
side_files           entries of the files next to a log
small_files          the form of any small file
snapshot_files       the snapshots of a partition, in order
time_indexes         whether a time index covers its whole log
transaction_checks   open and hanging transactions, markers, the coordinator's records
transaction_indexes  a `.txnindex` against the markers of its segment
"""
