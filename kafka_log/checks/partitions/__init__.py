"""What is wrong in one partition: what its files say of each other.

between_segments     lost segments, gaps and overlaps
compaction_checks    what stops the cleaner, and what it has left
continuity           from which offset on nothing is missing
leader_epochs        leader-epoch-checkpoint against the batches
partition_checks     one partition: what its files say of each other
producer_replay      the producers of a partition, batch by batch
producer_snapshots   a snapshot against the producers that the log implies
sequences            sequences and epochs of each producer
small_files          the form of any small file
snapshot_files       the snapshots of a partition, in order
transaction_indexes  a `.txnindex` against the markers of its segment
"""
