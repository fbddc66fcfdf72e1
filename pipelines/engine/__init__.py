"""Run tasks and return their rows, in this process, in processes or on Spark.

engine             choose where tasks run: the only interface between a job and the machine
output_place       check that output can be written, and write small files there
partition_tasks    one task per partition, and where results go
processes          processes of this machine
progress           the progress bar
pushed_items       turn a function that pushes items into an iterator
spark_tasks        tasks as a Spark job
worker_memory      keep loaded modules out of a worker's garbage collection
"""
