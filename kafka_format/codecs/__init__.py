"""The codecs of compression.py, one module each: how Kafka writes and reads its streams."""
