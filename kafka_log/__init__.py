"""Apache Kafka's rules for logs, without Spark and without sockets.

appends/       validate an append, and write it (LogValidator)
checkpoints    the rules of the four checkpoint files
checks/        findings: what is wrong in a log directory
cleaner/       log compaction
clock          clocks and schedulers that the caller passes in
config/        settings of brokers and topics
coordinators/  what coordinators hold: committed offsets, segments in tiered storage
damage/        find valid batches around damage
disk/          the interface to the disk: files, overlays, complete outputs
dump/          what kafka-dump-log prints
errors         the errors of a log
image/         the cluster at an offset or a time, from the KRaft metadata log
indexes/       offset, time and transaction index of a segment
inventory/     what is in log dirs, read-only
loading/       what a restart does: recovery
log/           one partition's log (UnifiedLog)
names          the grammar of file and directory names
producers/     producer state and transactions
retention/     which segments retention deletes
segment/       one segment and its files (LogSegment)
"""
