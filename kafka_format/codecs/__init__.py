"""The codecs of compression.py: how Kafka writes and reads their streams.

gzip_stream      gzip as the JDK writes it
lz4_frame        the LZ4 frames of Kafka
refusal          errors of all codecs
snappy_stream    the stream format of snappy-java
zstd_frame       zstd frames as zstd-jni writes them
"""
