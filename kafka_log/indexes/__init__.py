"""A segment's index files: offset, time and transaction index."""
