"""The parts of an append: the batches of a request, their validation, and what is written.

batches           batches of a request, before they are checked
broken_streams    how far a broker reads damaged compressed data
columns           records of a large batch, decoded by a kernel
conversion        records written again in another magic or codec
info              what an append consists of (LogAppendInfo)
origin            who appends (AppendOrigin), and what that implies
record_rules      the rules for each record of an append
records           the records of a batch, decoded for validation
scan              many batches at once, as a follower fetches them
stamping          offsets, leader epoch and timestamps of the log, set in place
validation        validate an append and assign offsets (LogValidator)
"""
