"""The parts of an append: what comes in, what it must satisfy, what is written.

batches           batches of a request, before they are checked
broken_streams    how far a broker reads compressed bytes that break off
columns           records of a large batch, decoded by a kernel
conversion        records written again in another magic or codec
info              what an append consists of (LogAppendInfo)
origin            who appends (AppendOrigin)
record_rules      the rules for each record of an append
records           records as far as validation reads them
scan              many batches at once, as a follower fetches them
stamping          offsets, leader epoch and timestamps of the log, set in place
validation        judge an append and assign offsets (LogValidator)
"""
