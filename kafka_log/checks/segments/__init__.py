"""What is wrong in one segment: its `.log`, and the files next to it.

batch_headers    magic, attributes, leader epochs, and bytes that no reader looks at
control_batches  transaction markers, and other control records
index_entries    entries of an offset and a time index against the batches of the log
log_pieces       a piece of a log as the checks see it
logs             batches, checksums, and the end of a `.log` file
offsets_in_log   offsets and timestamps of batches and of their records
records          records of Kafka's internal topics
segment_checks   one segment: its `.log`, and the index files next to it
segment_indexes  the indexes of one segment, checked while its log is read
segment_totals   the sums of a log, for checks between segments
side_files       entries of the files next to a log
time_indexes     whether a time index covers its whole log
"""
