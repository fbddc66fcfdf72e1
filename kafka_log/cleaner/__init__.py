"""Log compaction as Kafka's cleaner does it, on one partition at a time.

    cleaner_thread  one log end to end: whether it is due, rounds, retention, the new checkpoint
    passes          how many rounds, and where each begins
    cleanable       which offsets may be cleaned, what blocks the rest, whether and when it is due
    cleaner         one round: a log in, `.cleaned` and `.swap` files between, a smaller log out
    segment_reader  reads segments by chunks or blocks
    map_builder     the first step of a round: fill the offset map
    settings        what a broker sets for its cleaner, and how this one works
    offset_map      the latest offset of every key in the dirty part, in bounded memory
    grouping        which segments become one
    decision        keep or remove a batch, and each record in it: one reason code each
    reasons         the codes: names, sentences, kept or removed, counters
    witness         observers of decisions; one counts removed records by cause
    transactions    which batches and markers belong to aborted or finished transactions
    rewrite         what is left of a batch, as bytes
    stats           what a round read, wrote and removed
    releases        what the cleaners of other releases do differently
    errors          why a log was not cleaned
    damage          damaged batches in the range that a round would read
    what_if         the result of cleaning a log under other settings
    manager         LogCleanerManager: many logs of a broker; only the planned broker calls it
    columns/        the same work over columns, by compiled kernels
    explain/        why each record stays or goes, as rows
    parallel/       one large partition cleaned by many tasks

Rules of Apache Kafka 4.3.1 (org.apache.kafka.storage.internals.log.Cleaner, LogCleanerManager).
"""
