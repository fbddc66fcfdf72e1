"""The cluster at an offset or a time, from the KRaft metadata log (Kafka's org.apache.kafka.image).

history         each change of a topic's partitions and settings
metadata_image  MetadataImage: topics, partitions, brokers and the rest, changed by one record
replay          a snapshot and the log after it, up to an offset or a time
"""
