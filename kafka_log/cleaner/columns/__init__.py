"""The cleaner over columns and compiled kernels: many chunks of a segment at once.

read_buffer     a segment read chunk by chunk, or in blocks of many chunks
blocks          batches and their records as columns: a block, and the pieces of a block
lanes           blocks worked on by several cores, in the order of the log
key_table       the offset map as a hash table
map_columns     the keys of a piece put into that table
map_kernels     hashing, searching and filling it
block_writer    writes what a block retains, copied or built again
write_kernels   its loops
"""
