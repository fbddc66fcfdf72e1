package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.common.memory.MemoryPool;
import org.apache.kafka.common.message.VotersRecordJsonConverter;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.util.BatchFileReader;
import org.apache.kafka.metadata.util.BatchFileWriter;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.ControlRecord;
import org.apache.kafka.raft.KafkaRaftClient;
import org.apache.kafka.raft.VoterSet;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.FileRawSnapshotReader;
import org.apache.kafka.snapshot.FileRawSnapshotWriter;
import org.apache.kafka.snapshot.RecordsSnapshotReader;
import org.apache.kafka.snapshot.RecordsSnapshotWriter;
import org.apache.kafka.snapshot.SnapshotPath;

/** The KRaft side of {@link Files}: snapshots by the raft classes, bootstrap.checkpoint by its own. */
final class Snapshots {
    private Snapshots() { }

    static JsonNode readBootstrap(File file) throws Exception {
        ObjectNode node = Json.object();
        ArrayNode batches = node.putArray("batches");
        try (BatchFileReader reader = new BatchFileReader.Builder().setPath(file.getPath()).build()) {
            while (reader.hasNext()) {
                BatchFileReader.BatchAndType next = reader.next();
                ObjectNode batch = describe(next.batch(), batches.addObject());
                if (next.isControl()) {
                    ArrayNode control = batch.putArray("control_records");
                    for (ApiMessageAndVersion message : next.batch().records())
                        control.add(controlMessage(message.message()));
                } else {
                    records(next.batch(), batch);
                }
            }
        }
        return node;
    }

    static void writeBootstrap(File file, JsonNode content) throws Exception {
        try (BatchFileWriter writer = BatchFileWriter.open(file.toPath())) {
            writer.append(messages(content.path("records")));
        }
    }

    static JsonNode read(File file) {
        SnapshotPath path = org.apache.kafka.snapshot.Snapshots.parse(file.toPath())
            .orElseThrow(() -> new IllegalArgumentException(file.getName() + " is no snapshot's name"));
        ObjectNode node = Json.object();
        node.put("end_offset", path.snapshotId().offset());
        node.put("epoch", path.snapshotId().epoch());
        try (FileRawSnapshotReader raw = FileRawSnapshotReader.open(file.getParentFile().toPath(), path.snapshotId());
             RecordsSnapshotReader<ApiMessageAndVersion> reader = RecordsSnapshotReader.of(
                 raw, new MetadataRecordSerde(), BufferSupplier.create(),
                 KafkaRaftClient.MAX_BATCH_SIZE_BYTES, true, new LogContext())) {
            node.put("last_contained_log_timestamp", reader.lastContainedLogTimestamp());
            ArrayNode batches = node.putArray("batches");
            while (reader.hasNext()) {
                Batch<ApiMessageAndVersion> next = reader.next();
                ObjectNode batch = describe(next, batches.addObject());
                ArrayNode control = batch.putArray("control_records");
                for (ControlRecord record : next.controlRecords())
                    control.add(controlMessage(record.message()));
                records(next, batch);
            }
        }
        return node;
    }

    /** {records, kraft_version, voters, timestamp, last_contained_log_timestamp}, named by the path. */
    static void write(File file, JsonNode content) {
        Path folder = file.getParentFile().toPath();
        OffsetAndEpoch id = org.apache.kafka.snapshot.Snapshots.parse(file.toPath())
            .orElseThrow(() -> new IllegalArgumentException(file.getName() + " is no snapshot's name"))
            .snapshotId();
        KRaftVersion kraft = KRaftVersion.fromFeatureLevel(Json.small(content, "kraft_version", 0));
        Optional<VoterSet> voters = Json.has(content, "voters")
            ? Optional.of(VoterSet.fromVotersRecord(
                VotersRecordJsonConverter.read(content.get("voters"), (short) 0)))
            : Optional.empty();
        try (RecordsSnapshotWriter<ApiMessageAndVersion> writer = new RecordsSnapshotWriter.Builder()
                .setLastContainedLogTimestamp(Json.number(content, "last_contained_log_timestamp", 0))
                .setTime(new FixedTime(Json.number(content, "timestamp", 0)))
                .setMaxBatchSizeBytes(Json.integer(content, "max_batch_size", 1 << 20))
                .setMemoryPool(MemoryPool.NONE)
                .setCompression(Batches.compression(content))
                .setKraftVersion(kraft)
                .setVoterSet(voters)
                .setRawSnapshotWriter(FileRawSnapshotWriter.create(folder, id))
                .build(new MetadataRecordSerde())) {
            for (ApiMessageAndVersion message : messages(content.path("records")))
                writer.append(List.of(message));
            writer.freeze();
        }
    }

    private static ObjectNode describe(Batch<ApiMessageAndVersion> batch, ObjectNode node) {
        return node
            .put("base_offset", batch.baseOffset())
            .put("last_offset", batch.lastOffset())
            .put("epoch", batch.epoch())
            .put("append_timestamp", batch.appendTimestamp())
            .put("size_in_bytes", batch.sizeInBytes());
    }

    private static void records(Batch<ApiMessageAndVersion> batch, ObjectNode node) {
        ArrayNode records = node.putArray("records");
        for (ApiMessageAndVersion message : batch.records())
            records.addObject()
                .put("api_key", message.message().apiKey())
                .put("version", message.version())
                .set("data", MetadataJsonConverters.writeJson(message.message(), message.version()));
    }

    private static ObjectNode controlMessage(ApiMessage message) {
        ObjectNode node = Json.object().put("name", message.getClass().getSimpleName());
        node.set("data", Messages.toJson(message, (short) 0));
        return node;
    }

    static List<ApiMessageAndVersion> messages(JsonNode records) {
        List<ApiMessageAndVersion> messages = new ArrayList<>();
        for (JsonNode record : records) {
            short version = Json.small(record, "version", 0);
            messages.add(new ApiMessageAndVersion(
                MetadataJsonConverters.readJson(
                    record.get("data"), record.get("api_key").shortValue(), version),
                version));
        }
        return messages;
    }
}
