"""Decode batches and records into arrays, millions of records per second.

ahead             read and decode a file with several threads, in order
compilation       run kernels as plain Python or compiled by numba
headers           batch headers as columns
kernels           loops over headers, checksums and records of magic 2
legacy_kernels    loops over messages of magic 0 and 1
native            C functions of installed wheels that kernels call: checksums, decompression
native_codecs     C functions that compress and copy
record_columns    decoded records as columns
records           scan a segment and decode its records
rewrite           encode chosen records of a batch again
window            read a file through one bounded buffer
"""
