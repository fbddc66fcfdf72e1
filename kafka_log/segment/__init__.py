"""One segment of a log and its files.

file_records     the `.log` file (FileRecords)
log_segment      a segment: append, read, roll, recover (LogSegment)
log_segments     the segments of a log by base offset (LogSegments)
record_search    the first record of a batch with a given timestamp
segment_files    delete, swap and split segments so that a crash can be repaired
"""
