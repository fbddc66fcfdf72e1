"""The same bytes as arrays: batches and records by the million."""
