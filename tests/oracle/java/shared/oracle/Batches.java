package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Iterator;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.KRaftVersionRecordJsonConverter;
import org.apache.kafka.common.message.LeaderChangeMessageJsonConverter;
import org.apache.kafka.common.message.SnapshotFooterRecordJsonConverter;
import org.apache.kafka.common.message.SnapshotHeaderRecordJsonConverter;
import org.apache.kafka.common.message.VotersRecordJsonConverter;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.AbstractLegacyRecordBatch;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.ControlRecordUtils;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.LegacyRecord;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/** `build_batch` and `read_batches`: Kafka's builder and Kafka's iterators, all three magics. */
public final class Batches {
    private static final short CONTROL_VERSION = 0; // of every KRaft control record there is

    private Batches() { }

    // ---------------------------------------------------------------------------------- build

    static JsonNode build(JsonNode arguments) throws Exception {
        ObjectNode answer = Json.object();
        answer.set("bytes", Json.base64(buildBatch(arguments)));
        return answer;
    }

    public static ByteBuffer buildBatch(JsonNode batch) throws Exception {
        if (Json.flag(batch, "empty", false))
            return emptyBatch(batch);
        MemoryRecordsBuilder builder = builder(batch);
        long timestamp = Json.number(batch, "timestamp", 0);
        if (Json.has(batch, "control"))
            appendControl(builder, timestamp, batch.get("control"));
        long next = Json.number(batch, "base_offset", 0);
        boolean unchecked = Json.flag(batch, "unchecked", false);
        for (JsonNode record : batch.path("records")) {
            long offset = Json.number(record, "offset", next);
            append(builder, offset, record, unchecked);
            next = offset + 1;
        }
        if (Json.has(batch, "last_offset"))
            builder.overrideLastOffset(batch.get("last_offset").longValue());
        return builder.build().buffer();
    }

    private static MemoryRecordsBuilder builder(JsonNode batch) {
        byte magic = (byte) Json.integer(batch, "magic", 2);
        return new MemoryRecordsBuilder(
            new ByteBufferOutputStream(1024),
            magic,
            compression(batch),
            timestampType(batch, magic),
            Json.number(batch, "base_offset", 0),
            Json.number(batch, "log_append_time", RecordBatch.NO_TIMESTAMP),
            Json.number(batch, "producer_id", RecordBatch.NO_PRODUCER_ID),
            Json.small(batch, "producer_epoch", RecordBatch.NO_PRODUCER_EPOCH),
            Json.integer(batch, "base_sequence", RecordBatch.NO_SEQUENCE),
            Json.flag(batch, "transactional", false),
            Json.has(batch, "control") || Json.flag(batch, "is_control", false),
            Json.integer(batch, "partition_leader_epoch", RecordBatch.NO_PARTITION_LEADER_EPOCH),
            Integer.MAX_VALUE,
            Json.number(batch, "delete_horizon_ms", RecordBatch.NO_TIMESTAMP));
    }

    public static Compression compression(JsonNode batch) {
        CompressionType type = CompressionType.forName(Json.text(batch, "codec", "none"));
        if (!Json.has(batch, "level"))
            return Compression.of(type).build();
        int level = batch.get("level").intValue();
        switch (type) {
            case GZIP: return Compression.gzip().level(level).build();
            case LZ4: return Compression.lz4().level(level).build();
            case ZSTD: return Compression.zstd().level(level).build();
            default: throw new IllegalArgumentException("codec " + type.name + " has no level");
        }
    }

    private static TimestampType timestampType(JsonNode batch, byte magic) {
        if (magic == RecordBatch.MAGIC_VALUE_V0)
            return TimestampType.NO_TIMESTAMP_TYPE;
        return TimestampType.forName(Json.text(batch, "timestamp_type", "CreateTime"));
    }

    private static void append(
        MemoryRecordsBuilder builder, long offset, JsonNode record, boolean unchecked
    ) throws IOException {
        SimpleRecord simple = new SimpleRecord(
            Json.number(record, "timestamp", builder.magic() == 0 ? RecordBatch.NO_TIMESTAMP : 0),
            Json.bytes(record, "key"),
            Json.bytes(record, "value"),
            headers(record));
        if (unchecked) // negative timestamps, offsets that go back, unknown control types
            builder.appendUncheckedWithOffset(offset, simple);
        else if (builder.isControlBatch())
            builder.appendControlRecordWithOffset(offset, simple);
        else
            builder.appendWithOffset(offset, simple);
    }

    public static Header[] headers(JsonNode record) throws IOException {
        JsonNode list = record.path("headers");
        Header[] headers = new Header[list.size()];
        for (int i = 0; i < headers.length; i++) {
            JsonNode pair = list.get(i);
            byte[] value = pair.get(1).isNull() ? null : pair.get(1).binaryValue();
            headers[i] = new RecordHeader(pair.get(0).asText(), value);
        }
        return headers;
    }

    private static void appendControl(MemoryRecordsBuilder builder, long timestamp, JsonNode control)
        throws IOException {
        ControlRecordType type = ControlRecordType.valueOf(Json.text(control, "type"));
        JsonNode message = control.path("message");
        switch (type) {
            case ABORT:
            case COMMIT:
                appendMarker(builder, timestamp, type, control);
                break;
            case LEADER_CHANGE:
                builder.appendLeaderChangeMessage(
                    timestamp, LeaderChangeMessageJsonConverter.read(message, version(control)));
                break;
            case SNAPSHOT_HEADER:
                builder.appendSnapshotHeaderMessage(
                    timestamp, SnapshotHeaderRecordJsonConverter.read(message, version(control)));
                break;
            case SNAPSHOT_FOOTER:
                builder.appendSnapshotFooterMessage(
                    timestamp, SnapshotFooterRecordJsonConverter.read(message, version(control)));
                break;
            case KRAFT_VERSION:
                builder.appendKRaftVersionMessage(
                    timestamp, KRaftVersionRecordJsonConverter.read(message, version(control)));
                break;
            case KRAFT_VOTERS:
                builder.appendVotersMessage(
                    timestamp, VotersRecordJsonConverter.read(message, version(control)));
                break;
            default:
                throw new IllegalArgumentException("no writer for control type " + type);
        }
    }

    private static short version(JsonNode control) {
        return Json.small(control, "version", CONTROL_VERSION);
    }

    /** Kafka writes its newest marker version; an older {version} is written as older brokers did. */
    private static void appendMarker(
        MemoryRecordsBuilder builder, long timestamp, ControlRecordType type, JsonNode control
    ) {
        int coordinatorEpoch = Json.integer(control, "coordinator_epoch", 0);
        if (!Json.has(control, "version")) {
            builder.appendEndTxnMarker(timestamp, new EndTransactionMarker(type, coordinatorEpoch));
            return;
        }
        builder.appendControlRecord(
            timestamp, type, Markers.value(version(control), coordinatorEpoch));
    }

    /** What the cleaner leaves of a batch whose records are gone but whose sequence must stay. */
    private static ByteBuffer emptyBatch(JsonNode batch) {
        ByteBuffer buffer = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        byte magic = (byte) Json.integer(batch, "magic", 2);
        long baseOffset = Json.number(batch, "base_offset", 0);
        DefaultRecordBatch.writeEmptyHeader(
            buffer,
            magic,
            Json.number(batch, "producer_id", RecordBatch.NO_PRODUCER_ID),
            Json.small(batch, "producer_epoch", RecordBatch.NO_PRODUCER_EPOCH),
            Json.integer(batch, "base_sequence", RecordBatch.NO_SEQUENCE),
            baseOffset,
            Json.number(batch, "last_offset", baseOffset),
            Json.integer(batch, "partition_leader_epoch", RecordBatch.NO_PARTITION_LEADER_EPOCH),
            timestampType(batch, magic),
            Json.number(batch, "timestamp", RecordBatch.NO_TIMESTAMP),
            Json.flag(batch, "transactional", false),
            Json.flag(batch, "is_control", false));
        buffer.flip();
        return buffer;
    }

    // ----------------------------------------------------------------------------------- read

    /** {bytes} through MemoryRecords or {path} through FileRecords; an error ends what it is in. */
    static JsonNode read(JsonNode arguments) throws Exception {
        boolean withRecords = Json.flag(arguments, "records", true);
        if (Json.has(arguments, "bytes")) {
            MemoryRecords records = MemoryRecords.readableRecords(Json.buffer(arguments, "bytes"));
            return readAll(records.batches().iterator(), withRecords, records.sizeInBytes());
        }
        try (FileRecords records = FileRecords.open(new File(Json.text(arguments, "path")), false)) {
            return readAll(records.batches().iterator(), withRecords, records.sizeInBytes());
        }
    }

    private static ObjectNode readAll(
        Iterator<? extends RecordBatch> batches, boolean withRecords, int sizeInBytes
    ) {
        ObjectNode answer = Json.object();
        ArrayNode list = answer.putArray("batches");
        answer.put("size_in_bytes", sizeInBytes);
        answer.set("error", NullNode.instance);
        int position = 0;
        try {
            while (batches.hasNext()) {
                RecordBatch batch = batches.next();
                ObjectNode node = list.addObject();
                node.put("position", position);
                describe(batch, node, withRecords);
                position += batch.sizeInBytes();
            }
        } catch (Exception problem) {
            answer.set("error", Json.error(problem));
        }
        answer.put("end_position", position);
        return answer;
    }

    static void describe(RecordBatch batch, ObjectNode node, boolean withRecords) {
        node.set("error", NullNode.instance);
        try {
            describeHeader(batch, node);
            if (!withRecords)
                return;
            ArrayNode records = node.putArray("records");
            for (Record record : batch)
                describeRecord(batch, record, records.addObject());
        } catch (Exception problem) {
            node.set("error", Json.error(problem));
        }
    }

    private static void describeHeader(RecordBatch batch, ObjectNode node) {
        node.put("magic", batch.magic());
        node.put("size_in_bytes", batch.sizeInBytes());
        node.put("last_offset", batch.lastOffset());
        node.put("next_offset", batch.nextOffset());
        RecordBatch loaded = inMemory(batch); // a file's batch keeps part of this to itself
        node.put("is_valid", loaded.isValid());
        node.put("checksum", loaded.checksum());
        node.put("base_offset", batch.baseOffset());
        node.put("codec", batch.compressionType().name);
        node.put("timestamp_type", batch.timestampType().name);
        node.put("max_timestamp", batch.maxTimestamp());
        node.put("producer_id", batch.producerId());
        node.put("producer_epoch", batch.producerEpoch());
        node.put("has_producer_id", batch.hasProducerId());
        node.put("base_sequence", batch.baseSequence());
        node.put("last_sequence", batch.lastSequence());
        node.put("count", batch.countOrNull());
        node.put("is_transactional", batch.isTransactional());
        node.put("is_control", batch.isControlBatch());
        node.put("partition_leader_epoch", batch.partitionLeaderEpoch());
        if (batch.deleteHorizonMs().isPresent())
            node.put("delete_horizon_ms", batch.deleteHorizonMs().getAsLong());
        else
            node.set("delete_horizon_ms", NullNode.instance);
        if (loaded instanceof DefaultRecordBatch)
            node.put("base_timestamp", ((DefaultRecordBatch) loaded).baseTimestamp());
    }

    private static RecordBatch inMemory(RecordBatch batch) {
        if (!(batch instanceof FileChannelRecordBatch))
            return batch;
        ByteBuffer copy = ByteBuffer.allocate(batch.sizeInBytes());
        batch.writeTo(copy);
        copy.flip();
        return MemoryRecords.readableRecords(copy).batchIterator().next();
    }

    private static void describeRecord(RecordBatch batch, Record record, ObjectNode node) {
        node.put("offset", record.offset());
        node.put("timestamp", record.timestamp());
        node.put("sequence", record.sequence());
        node.put("size_in_bytes", record.sizeInBytes());
        node.set("key", Json.base64(record.key()));
        node.set("value", Json.base64(record.value()));
        ArrayNode headers = node.putArray("headers");
        for (Header header : record.headers())
            headers.addArray().add(header.key()).add(Json.base64(header.value()));
        if (record instanceof AbstractLegacyRecordBatch)
            describeLegacy(((AbstractLegacyRecordBatch) record).outerRecord(), node);
        if (batch.isControlBatch())
            node.set("control", control(record));
    }

    private static void describeLegacy(LegacyRecord record, ObjectNode node) {
        node.put("magic", record.magic());
        node.put("checksum", record.checksum());
        node.put("is_valid", record.isValid());
    }

    private static ObjectNode control(Record record) {
        ObjectNode node = Json.object();
        try {
            short typeId = ControlRecordType.parseTypeId(record.key());
            ControlRecordType type = ControlRecordType.fromTypeId(typeId);
            node.put("type_id", typeId);
            node.put("type", type.name());
            switch (type) {
                case ABORT:
                case COMMIT:
                    EndTransactionMarker marker = EndTransactionMarker.deserialize(record);
                    node.put("coordinator_epoch", marker.coordinatorEpoch());
                    break;
                case LEADER_CHANGE:
                    node.set("message", LeaderChangeMessageJsonConverter.write(
                        ControlRecordUtils.deserializeLeaderChangeMessage(record), CONTROL_VERSION));
                    break;
                case SNAPSHOT_HEADER:
                    node.set("message", SnapshotHeaderRecordJsonConverter.write(
                        ControlRecordUtils.deserializeSnapshotHeaderRecord(record), CONTROL_VERSION));
                    break;
                case SNAPSHOT_FOOTER:
                    node.set("message", SnapshotFooterRecordJsonConverter.write(
                        ControlRecordUtils.deserializeSnapshotFooterRecord(record), CONTROL_VERSION));
                    break;
                case KRAFT_VERSION:
                    node.set("message", KRaftVersionRecordJsonConverter.write(
                        ControlRecordUtils.deserializeKRaftVersionRecord(record), CONTROL_VERSION));
                    break;
                case KRAFT_VOTERS:
                    node.set("message", VotersRecordJsonConverter.write(
                        ControlRecordUtils.deserializeVotersRecord(record), CONTROL_VERSION));
                    break;
                default:
            }
        } catch (Exception problem) {
            node.set("error", Json.error(problem));
        }
        return node;
    }
}
