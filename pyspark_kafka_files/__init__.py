"""Lets Spark find `kafka_files` by name: it asks packages `pyspark_*` for `DefaultSource`."""

from pipelines.source.data_source import KafkaFiles as DefaultSource

__all__ = ["DefaultSource"]
