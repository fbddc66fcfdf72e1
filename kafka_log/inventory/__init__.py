"""What is there: log dirs, partitions, segments and files, with every problem in its place.

cluster_metadata    topics and settings in the KRaft metadata of a log dir
directory           list a directory: the only module that does
file_limits         the largest size of each kind of file
inventory           the values: log dir, partition, segment, file
log_dir_scan        one log dir: its own files, its partitions
log_end             where a log ends, from a few headers
lost_segments       segments that somebody removed
refused_settings    settings in the cluster metadata that Kafka refuses
scan                from paths to an inventory
strays              what a file is by its name, and why it does not belong there
"""
