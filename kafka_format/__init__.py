"""Bytes of a broker's files to values and back; no paths walked, no Spark, no Arrow."""
