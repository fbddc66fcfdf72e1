"""Access to the disk: files, dry runs that write nothing, atomic outputs.

crash_points     simulate a crash at any change, and a power loss, for tests
files            the file operations that logs use
live_lock        check whether a broker holds the `.lock` of a log dir
output           write a new log dir atomically; lock and check one that is written in place
overlay_files    a directory with changes that are kept in memory
scratch_files    an overlay that keeps large files in a scratch directory
watched_files    count the bytes that are read, for progress bars
"""
