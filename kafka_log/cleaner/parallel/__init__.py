"""One large partition cleaned by many tasks: the same bytes as one cleaner leaves.

parts        a range of bytes of a segment: what one task scans
trace        the transactions of a part, as far as the next part must know them
scan         scan a part: its keys by hash, and the records superseded within it
key_index    keys by their hashes, numbered
reduction    one range of hashes over all parts: the records that a later part supersedes
offset_set   sets of superseded offsets, about one bit per offset
capacity     where Kafka's map would have been full
map_scan     scans and reductions in order: the superseded records, the end of the map
group        one group of segments rewritten by itself
files        files that tasks and the driver's log exchange
runner       where tasks run: the protocol; processes and Spark are in pipelines/compaction
cleaner      a whole round: the plan, the groups, the swap
"""
