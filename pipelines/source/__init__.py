"""The data source `kafka_files`.

arrow            columns of kafka_format to Arrow
data_source      KafkaFiles: what Spark calls
globs            alternatives in a glob: `data-{1,2}`
log_ranges       a range of a `.log` file: its batches, records and damage
options          the options, typed and checked
pushdown         filters of a query to ranges of offsets and times
refusals         files that cannot be read or change: which finding that is
schema           the columns of every table
segment_index    where batches of a segment begin, and which times it reaches
selection        whether a query matches anything that is there
splits           what a query reads, pruned and packed into splits
storage          local paths and URIs through pyarrow.fs
tables/          one reader per table
"""
