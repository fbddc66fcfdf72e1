"""A segment's index files: offset, time and transaction index.

aborted_transactions    `.txnindex` (TransactionIndex)
bulk                    append entries to both indexes for many batches at once
index_files             `.index` and `.timeindex` (OffsetIndex, TimeIndex)
kernels                 select the batches that get entries
mapped_index            the common base of both preallocated indexes (AbstractIndex)
"""
