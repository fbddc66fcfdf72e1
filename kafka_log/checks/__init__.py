"""What is wrong in a log directory: one module per kind of evidence.

directories     what names and directories show
finding         Finding, and the rules with their ids
logs            batches, checksums and the end of a `.log` file
records         records of Kafka's internal topics
side_files      entries of the files beside a log
time_indexes    whether a time index reaches the end of its log
"""
