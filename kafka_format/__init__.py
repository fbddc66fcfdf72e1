"""Decode the bytes of a broker's files, and encode them: no directory walks, no Spark, no Arrow.

access                 opens every local file of the evidence, and limits what may be read
attributes             the bits of the attributes field
batch                  record batches of magic 2: header, reading, writing
batch_layout           the layout of batch headers
checkpoint_file        the four offset checkpoints of a log dir
checksum               CRC-32C and CRC-32 over any buffer
clean_shutdown_file    `.kafka_cleanshutdown`
codecs/                one module per compression codec
columnar/              record batches decoded into arrays, millions of records per second
compression            compress and decompress the records of a batch, bounded
control                control records: markers, leader changes, snapshot headers
coordinator_records    records of __consumer_offsets, __transaction_state and
__share_group_state
errors                 FormatError and its children
field_codecs           the types of message fields
file_bytes             read one small file, up to a limit
file_kinds             the kinds of files that a segment has
index_end              where the entries of an index file end
index_layout           the layout of index entries
java_text              parse and format text as Java does
json_text              parse and write JSON as Jackson does
leader_epoch_file      `leader-epoch-checkpoint`
legacy                 messages of magic 0 and 1
log_file               the batches of a `.log` file, one at a time, and how it ends
message                Kafka's schema-described messages: one engine for all of them
metadata_records       records of __cluster_metadata and its snapshots
offset_index           `.index`
partition_metadata     `partition.metadata`
primitives             varints and nullable bytes
producer_snapshot      `.snapshot` of producers
properties_file        Java properties, and `meta.properties`
quorum_state           `quorum-state`
record                 records of magic 2, and the `Record` that every magic decodes to
remote_log_metadata    records of __remote_log_metadata
schemas/               the tables of fields, one per message
search_path            keep the current directory off Python's search path
shown_text             escape text from the evidence; names that are not text
stored_batch           what batches of every magic share: location and checksum
time_index             `.timeindex`
transaction_index      `.txnindex`
"""
