"""What a log means: Apache Kafka's rules; no Spark, no sockets.

appends/       what an append must satisfy, and what is written (LogValidator)
checkpoints    the rules of the four checkpoint files
checks/        what is wrong: findings
cleaner/       log compaction
clock          clocks and schedulers that the caller injects
config/        settings of brokers and topics
damage/        find sound batches around damage
disk/          the seam to the disk: files, overlays, whole outputs
dump/          what kafka-dump-log prints
errors         what a log refuses
indexes/       offset, time and transaction index of a segment
inventory/     what is in log dirs, read-only
loading/       what a restart does: recovery
log/           one partition's log (UnifiedLog)
names          the grammar of file and directory names
producers/     producer state and transactions
retention/     what retention deletes
segment/       one segment and its files (LogSegment)
"""
