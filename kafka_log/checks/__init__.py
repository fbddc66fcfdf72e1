"""What is wrong in a log directory: one module per kind of evidence.

directories     findings from names and directories
finding         Finding, and the rules with their ids
logs            batches, checksums, and the end of a `.log` file
records         records of Kafka's internal topics
side_files      entries of the files next to a log
time_indexes    whether a time index covers its whole log
"""
