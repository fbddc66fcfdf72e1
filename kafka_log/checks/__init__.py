"""What is wrong in a log directory: one module per kind of evidence.

directories     findings from names and directories
facts           what checks of several files or partitions need to know of each
finding         Finding: what is wrong, where, and by which rule
logs            batches, checksums, and the end of a `.log` file
records         records of Kafka's internal topics
rules/          the rules by their ids
side_files      entries of the files next to a log
time_indexes    whether a time index covers its whole log
"""
