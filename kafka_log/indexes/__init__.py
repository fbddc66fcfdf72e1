"""A segment's index files: offset, time and transaction index.

aborted_transactions    `.txnindex` (TransactionIndex)
bulk                    entries of both indexes for many batches at once
index_files             `.index` and `.timeindex` (OffsetIndex, TimeIndex)
kernels                 which batches of a recovery get entries
mapped_index            what both preallocated indexes share (AbstractIndex)
"""
