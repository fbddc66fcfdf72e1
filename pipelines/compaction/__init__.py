"""The job `compact`: partitions as tasks and rows.

compaction             clean partitions: one row per round and partition
explanation            why each record is kept or removed: the table `compaction`
key_life               every record of one key
parallel_compaction    run the tasks of one large partition
what_if                the same partitions under several settings
"""
