"""One large partition cleaned by many tasks: the same bytes as one cleaner leaves.

    parts        a range of bytes of a segment: what one task scans
    trace        the transactions of a part, as much as the next part must know
    scan         a part: its keys by hash, and which of its records it supersedes itself
    key_index    keys by their hashes, numbered
    reduction    one range of hashes over all parts: which records a later part supersedes
    offset_set   which offsets are superseded, about one bit per offset
    capacity     where Kafka's map would have been full
    group        one group of segments rewritten by itself
    cleaner      the plan, the order of the steps, and the swap: what the driver does

Nothing here knows where tasks run: a `Runner` does (pipelines/compaction/parallel_compaction.py).
"""
