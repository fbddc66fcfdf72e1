"""The seam to the disk: files, plans that write nothing, whole outputs.

crash_points     Files on which a process dies at a chosen change, for tests
files            what the rules of a log may do to a directory
live_lock        whether a broker holds the `.lock` of a log dir
output           a new log dir, whole or not at all; the guard of a log dir written in place
overlay_files    a directory as if it had been written to
scratch_files    an overlay whose large files go to a scratch directory
watched_files    count the bytes that are read, for progress bars
"""
