"""The data source `kafka_files`.

arrow            columns of kafka_format to Arrow
data_source      KafkaFiles: the classes that Spark calls
globs            alternatives in a path: `data-{1,2}`
log_ranges       a range of a `.log` file: its batches, records and damage
options          the options, parsed and checked
pushdown         filters of a query to ranges of offsets and times
refusals         the finding for a file that cannot be read or that changes
schema           the columns of every table
segment_index    where batches of a segment begin, and which times it reaches
selection        whether a query matches anything that is there
splits           what a query reads, pruned and packed into splits
storage          local paths and URIs through pyarrow.fs
tables/          one reader per table
"""
