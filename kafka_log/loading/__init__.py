"""What a restart does to log dirs, partitions, segments and producer state, and why.

journal               what a loader did to each file, and why
left_overs            unfinished files of an earlier process (the first passes of a load)
loaded_producers      the producers after a load, and those that it drops
log_dir_recovery      what a restart does to a log dir
log_loader            load the segments of a partition (LogLoader)
losses                count the bytes, records and offsets that a restart cuts off
lost_data             which bytes a restart drops
metadata_log          the snapshots of __cluster_metadata at a restart
opened_log            open a log to rewrite it, refusing damage
partition_recovery    what a restart does to a partition directory
rebuild_state         restore the producer state from a snapshot and the log
rebuilt_files         write rebuilt side files so that a kill does no harm
segment_recovery      check every batch, rebuild indexes, truncate (LogSegment.recover)
"""
