"""Log compaction as Kafka's cleaner does it, on one partition at a time.

    cleanable       which offsets may be cleaned, whether a log is dirty enough, which is dirtiest
    offset_map      the latest offset of every key in the dirty part, in so much memory
    transactions    which batches and markers belong to aborted or finished transactions
    verdict         whether a batch, and each record in it, stays
    rewrite         what is left of a batch, as bytes
    grouping        which segments become one
    cleaner         all of it: a log in, `.cleaned` and `.swap` files between, a smaller log out

Rules of Apache Kafka 4.3.1 (org.apache.kafka.storage.internals.log.Cleaner, LogCleanerManager).
"""
