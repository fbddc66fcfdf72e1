"""An inventory of log dirs: partitions, segments and files, each with its problems.

cluster_metadata    topics and settings in the KRaft metadata of a log dir
directory           list a directory: the only module that does
file_limits         the largest size of each kind of file
inventory           the values: log dir, partition, segment, file
log_dir_scan        one log dir: its own files, its partitions
log_end             the end of a log, from a few headers
lost_segments       segments that something other than Kafka removed
nearby              the names next to a path that does not exist, for its error
refused_settings    settings in the cluster metadata that Kafka refuses
scan                scan paths into an inventory
strays              what a file is by its name, and why it does not belong in its directory
"""
