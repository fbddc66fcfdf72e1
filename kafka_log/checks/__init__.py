"""What is wrong in a log directory: one module per kind of evidence.

broker_checks   one broker: what its log dirs, metadata and internal topics say of each other
directories     findings from names and directories
facts           what checks of several files or partitions need to know of each
finding         Finding: what is wrong, where, and by which rule
logs            batches, checksums, and the end of a `.log` file
partition_checks    one partition: what its files say of each other
records         records of Kafka's internal topics
rules/          the rules by their ids
segment_checks  one segment: its `.log`, and the index files next to it
side_files      entries of the files next to a log
time_indexes    whether a time index covers its whole log
transaction_checks  open and hanging transactions, markers, the coordinator's records
"""
