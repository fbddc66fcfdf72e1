"""The codecs of compression.py: their streams as Kafka reads and writes them.

gzip_stream      gzip as the JDK writes it
lz4_frame        the LZ4 frames of Kafka
refusal          errors of all codecs
snappy_stream    the stream format of snappy-java
zstd_frame       zstd frames as zstd-jni writes them
"""
