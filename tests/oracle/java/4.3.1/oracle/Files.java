package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.properties.MetaProperties;
import org.apache.kafka.metadata.properties.MetaPropertiesVersion;
import org.apache.kafka.metadata.properties.PropertiesUtils;
import org.apache.kafka.raft.ElectionState;
import org.apache.kafka.raft.FileQuorumStateStore;
import org.apache.kafka.raft.generated.QuorumStateData;
import org.apache.kafka.raft.generated.QuorumStateDataJsonConverter;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadata;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile;
import org.apache.kafka.storage.internals.log.AbortedTxn;
import org.apache.kafka.storage.internals.log.AbstractIndex;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.OffsetIndex;
import org.apache.kafka.storage.internals.log.OffsetPosition;
import org.apache.kafka.storage.internals.log.PackageAccess;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.TimeIndex;
import org.apache.kafka.storage.internals.log.TimestampOffset;
import org.apache.kafka.storage.internals.log.TransactionIndex;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * `read_file` and `write_file`: {kind, path, ...} by the class that the broker itself uses.
 *
 * <p>What one writes is what the other tells: write_file takes read_file's answer.
 */
final class Files {
    private interface Reader {
        JsonNode read(File file, JsonNode arguments) throws Exception;
    }

    private interface Writer {
        void write(File file, JsonNode content) throws Exception;
    }

    private static final Map<String, Reader> READERS = new TreeMap<>();
    private static final Map<String, Writer> WRITERS = new TreeMap<>();

    static {
        READERS.put("offset_index", Files::readOffsetIndex);
        WRITERS.put("offset_index", Files::writeOffsetIndex);
        READERS.put("time_index", Files::readTimeIndex);
        WRITERS.put("time_index", Files::writeTimeIndex);
        READERS.put("transaction_index", (file, arguments) -> readTransactionIndex(file));
        WRITERS.put("transaction_index", Files::writeTransactionIndex);
        READERS.put("producer_snapshot", (file, arguments) -> readProducerSnapshot(file));
        WRITERS.put("producer_snapshot", Files::writeProducerSnapshot);
        READERS.put("leader_epoch_checkpoint", (file, arguments) -> readLeaderEpochs(file));
        WRITERS.put("leader_epoch_checkpoint", Files::writeLeaderEpochs);
        READERS.put("offset_checkpoint", (file, arguments) -> readOffsets(file));
        WRITERS.put("offset_checkpoint", Files::writeOffsets);
        READERS.put("partition_metadata", (file, arguments) -> readPartitionMetadata(file));
        WRITERS.put("partition_metadata", Files::writePartitionMetadata);
        READERS.put("meta_properties", (file, arguments) -> readMetaProperties(file));
        WRITERS.put("meta_properties", Files::writeMetaProperties);
        READERS.put("clean_shutdown", (file, arguments) -> readCleanShutdown(file));
        WRITERS.put("clean_shutdown", Files::writeCleanShutdown);
        READERS.put("quorum_state", (file, arguments) -> readQuorumState(file));
        WRITERS.put("quorum_state", Files::writeQuorumState);
        READERS.put("bootstrap_checkpoint", (file, arguments) -> Snapshots.readBootstrap(file));
        WRITERS.put("bootstrap_checkpoint", Snapshots::writeBootstrap);
        READERS.put("metadata_snapshot", (file, arguments) -> Snapshots.read(file));
        WRITERS.put("metadata_snapshot", Snapshots::write);
    }

    private Files() { }

    static JsonNode read(JsonNode arguments) throws Exception {
        Reader reader = READERS.get(Json.text(arguments, "kind"));
        if (reader == null)
            throw new IllegalArgumentException("kind is one of " + READERS.keySet());
        File file = new File(Json.text(arguments, "path")).getAbsoluteFile();
        if (!file.isFile()) // several of Kafka's readers would create it
            throw new java.nio.file.NoSuchFileException(file.toString());
        return reader.read(file, arguments);
    }

    static JsonNode write(JsonNode arguments) throws Exception {
        Writer writer = WRITERS.get(Json.text(arguments, "kind"));
        if (writer == null)
            throw new IllegalArgumentException("kind is one of " + WRITERS.keySet());
        File file = new File(Json.text(arguments, "path")).getAbsoluteFile();
        writer.write(file, Json.required(arguments, "content"));
        return Json.object().put("size_in_bytes", file.length());
    }

    private static LogDirFailureChannel failures() {
        return new LogDirFailureChannel(1000);
    }

    // ------------------------------------------------------------------------------- indexes

    private static long baseOffset(File file, JsonNode arguments) {
        return Json.has(arguments, "base_offset")
            ? arguments.get("base_offset").longValue() : UnifiedLog.offsetFromFile(file);
    }

    /** {base_offset, entries, sanity}: sanity is null or what the broker's own check says at start. */
    private static ObjectNode describe(AbstractIndex index) {
        ObjectNode node = Json.object();
        node.put("base_offset", index.baseOffset());
        node.set("sanity", NullNode.instance);
        try {
            index.sanityCheck();
        } catch (Exception problem) {
            node.set("sanity", Json.error(problem));
        }
        return node;
    }

    private static JsonNode readOffsetIndex(File file, JsonNode arguments) throws IOException {
        OffsetIndex index = new OffsetIndex(file, baseOffset(file, arguments), -1, false);
        try {
            ObjectNode node = describe(index);
            ArrayNode entries = node.putArray("entries");
            for (int i = 0; i < index.entries(); i++) {
                OffsetPosition entry = index.entry(i);
                entries.addObject().put("offset", entry.offset()).put("position", entry.position());
            }
            return node;
        } finally {
            index.closeHandler();
        }
    }

    private static JsonNode readTimeIndex(File file, JsonNode arguments) throws IOException {
        TimeIndex index = new TimeIndex(file, baseOffset(file, arguments), -1, false);
        try {
            ObjectNode node = describe(index);
            ArrayNode entries = node.putArray("entries");
            for (int i = 0; i < index.entries(); i++) {
                TimestampOffset entry = index.entry(i);
                entries.addObject().put("timestamp", entry.timestamp()).put("offset", entry.offset());
            }
            return node;
        } finally {
            index.closeHandler();
        }
    }

    private static void writeOffsetIndex(File file, JsonNode content) throws IOException {
        OffsetIndex index =
            new OffsetIndex(file, baseOffset(file, content), Json.integer(content, "max_index_size", 1 << 20));
        for (JsonNode entry : content.path("entries"))
            index.append(entry.get("offset").longValue(), entry.get("position").intValue());
        close(index, content);
    }

    private static void writeTimeIndex(File file, JsonNode content) throws IOException {
        TimeIndex index =
            new TimeIndex(file, baseOffset(file, content), Json.integer(content, "max_index_size", 1 << 20));
        for (JsonNode entry : content.path("entries"))
            index.maybeAppend(entry.get("timestamp").longValue(), entry.get("offset").longValue(), true);
        close(index, content);
    }

    /** Closing trims an index; {preallocated} leaves it at its full size, as a killed broker does. */
    private static void close(AbstractIndex index, JsonNode content) throws IOException {
        if (Json.flag(content, "preallocated", false)) {
            index.flush();
            index.closeHandler();
        } else {
            index.close();
        }
    }

    private static JsonNode readTransactionIndex(File file) throws IOException {
        try (TransactionIndex index = new TransactionIndex(UnifiedLog.offsetFromFile(file), file)) {
            ObjectNode node = Json.object();
            ArrayNode entries = node.putArray("entries");
            for (AbortedTxn txn : index.allAbortedTxns())
                entries.add(describe(txn));
            node.set("sanity", NullNode.instance);
            try {
                index.sanityCheck();
            } catch (Exception problem) {
                node.set("sanity", Json.error(problem));
            }
            return node;
        }
    }

    static ObjectNode describe(AbortedTxn txn) {
        return Json.object()
            .put("version", txn.version())
            .put("producer_id", txn.producerId())
            .put("first_offset", txn.firstOffset())
            .put("last_offset", txn.lastOffset())
            .put("last_stable_offset", txn.lastStableOffset());
    }

    private static void writeTransactionIndex(File file, JsonNode content) throws IOException {
        try (TransactionIndex index = new TransactionIndex(UnifiedLog.offsetFromFile(file), file)) {
            for (JsonNode entry : content.path("entries"))
                index.append(new AbortedTxn(
                    entry.get("producer_id").longValue(),
                    entry.get("first_offset").longValue(),
                    entry.get("last_offset").longValue(),
                    entry.get("last_stable_offset").longValue()));
            index.flush();
        }
    }

    // ------------------------------------------------------------------------------ producers

    private static JsonNode readProducerSnapshot(File file) throws IOException {
        ObjectNode node = Json.object();
        ArrayNode entries = node.putArray("entries");
        for (ProducerStateEntry entry : ProducerStateManager.readSnapshot(file))
            entries.add(describe(entry));
        return node;
    }

    static ObjectNode describe(ProducerStateEntry entry) {
        ObjectNode node = Json.object()
            .put("producer_id", entry.producerId())
            .put("producer_epoch", entry.producerEpoch())
            .put("last_sequence", PackageAccess.lastSequence(entry))
            .put("last_offset", entry.lastDataOffset())
            .put("offset_delta", PackageAccess.lastOffsetDelta(entry))
            .put("timestamp", entry.lastTimestamp())
            .put("coordinator_epoch", entry.coordinatorEpoch())
            .put("current_txn_first_offset", entry.currentTxnFirstOffset().orElse(-1));
        ArrayNode batches = node.putArray("batches");
        for (BatchMetadata batch : entry.batchMetadata())
            batches.addObject()
                .put("first_sequence", batch.firstSeq())
                .put("last_sequence", batch.lastSeq())
                .put("first_offset", batch.firstOffset())
                .put("last_offset", batch.lastOffset())
                .put("offset_delta", batch.offsetDelta())
                .put("timestamp", batch.timestamp());
        return node;
    }

    private static void writeProducerSnapshot(File file, JsonNode content) throws IOException {
        Map<Long, ProducerStateEntry> entries = new LinkedHashMap<>();
        for (JsonNode node : content.path("entries")) {
            long producerId = node.get("producer_id").longValue();
            short epoch = Json.small(node, "producer_epoch", 0);
            long timestamp = Json.number(node, "timestamp", -1);
            long firstOffset = Json.number(node, "current_txn_first_offset", -1);
            ProducerStateEntry entry = new ProducerStateEntry(
                producerId, epoch, Json.integer(node, "coordinator_epoch", -1), timestamp,
                firstOffset < 0 ? OptionalLong.empty() : OptionalLong.of(firstOffset));
            if (Json.number(node, "last_offset", -1) >= 0)
                PackageAccess.addBatch(
                    entry, epoch, Json.integer(node, "last_sequence", -1),
                    node.get("last_offset").longValue(), Json.integer(node, "offset_delta", 0), timestamp);
            entries.put(producerId, entry);
        }
        ProducerStateManager.writeSnapshot(file, entries, false);
    }

    // ---------------------------------------------------------------------------- checkpoints

    private static JsonNode readLeaderEpochs(File file) throws IOException {
        ObjectNode node = Json.object();
        ArrayNode entries = node.putArray("entries");
        for (EpochEntry entry : new LeaderEpochCheckpointFile(file, failures()).read())
            entries.addObject().put("epoch", entry.epoch()).put("start_offset", entry.startOffset());
        return node;
    }

    private static void writeLeaderEpochs(File file, JsonNode content) throws IOException {
        List<EpochEntry> entries = new ArrayList<>();
        for (JsonNode node : content.path("entries"))
            entries.add(new EpochEntry(node.get("epoch").intValue(), node.get("start_offset").longValue()));
        new LeaderEpochCheckpointFile(file, failures()).write(entries);
    }

    /** Kafka reads into a map, so neither order nor a double line survives; sorted by partition here. */
    private static JsonNode readOffsets(File file) throws IOException {
        ObjectNode node = Json.object();
        ArrayNode entries = node.putArray("entries");
        new OffsetCheckpointFile(file, failures()).read().entrySet().stream()
            .sorted(java.util.Comparator.comparing(entry -> entry.getKey().toString()))
            .forEach(entry -> entries.addObject()
                .put("topic", entry.getKey().topic())
                .put("partition", entry.getKey().partition())
                .put("offset", entry.getValue()));
        return node;
    }

    private static void writeOffsets(File file, JsonNode content) throws IOException {
        Map<TopicPartition, Long> offsets = new LinkedHashMap<>();
        for (JsonNode node : content.path("entries"))
            offsets.put(
                new TopicPartition(node.get("topic").asText(), node.get("partition").intValue()),
                node.get("offset").longValue());
        new OffsetCheckpointFile(file, failures()).write(offsets);
    }

    // --------------------------------------------------------------------------- small files

    private static JsonNode readPartitionMetadata(File file) {
        PartitionMetadata metadata = new PartitionMetadataFile(file, failures()).read();
        return Json.object()
            .put("version", metadata.version())
            .put("topic_id", metadata.topicId().toString());
    }

    private static void writePartitionMetadata(File file, JsonNode content) {
        PartitionMetadataFile metadata = new PartitionMetadataFile(file, failures());
        metadata.record(Uuid.fromString(Json.text(content, "topic_id")));
        metadata.maybeFlush();
    }

    private static JsonNode readMetaProperties(File file) throws IOException {
        Properties properties = PropertiesUtils.readPropertiesFile(file.getPath());
        MetaProperties meta = new MetaProperties.Builder(properties).build();
        ObjectNode node = Json.object();
        node.put("version", meta.version().number());
        node.put("cluster_id", meta.clusterId().orElse(null));
        node.put("node_id", meta.nodeId().isPresent() ? meta.nodeId().getAsInt() : null);
        node.put("directory_id", meta.directoryId().map(Uuid::toString).orElse(null));
        ObjectNode raw = node.putObject("properties");
        for (String name : new java.util.TreeSet<>(properties.stringPropertyNames()))
            raw.put(name, properties.getProperty(name));
        return node;
    }

    private static void writeMetaProperties(File file, JsonNode content) throws IOException {
        MetaProperties.Builder builder = new MetaProperties.Builder()
            .setVersion(MetaPropertiesVersion.fromNumber(Json.integer(content, "version", 1)));
        if (Json.has(content, "cluster_id"))
            builder.setClusterId(Json.text(content, "cluster_id"));
        if (Json.has(content, "node_id"))
            builder.setNodeId(content.get("node_id").intValue());
        if (Json.has(content, "directory_id"))
            builder.setDirectoryId(Uuid.fromString(Json.text(content, "directory_id")));
        PropertiesUtils.writePropertiesFile(builder.build().toProperties(), file.getPath(), false);
    }

    /** The handler swallows whatever it cannot read: then broker_epoch is null. */
    private static JsonNode readCleanShutdown(File file) {
        OptionalLong epoch = cleanShutdown(file).read();
        ObjectNode node = Json.object();
        node.put("broker_epoch", epoch.isPresent() ? epoch.getAsLong() : null);
        return node;
    }

    private static void writeCleanShutdown(File file, JsonNode content) throws Exception {
        cleanShutdown(file).write(Json.number(content, "broker_epoch", -1));
    }

    private static CleanShutdownFileHandler cleanShutdown(File file) {
        if (!file.getName().equals(CleanShutdownFileHandler.CLEAN_SHUTDOWN_FILE_NAME))
            throw new IllegalArgumentException("Kafka fixes this file's name, not " + file.getName());
        return new CleanShutdownFileHandler(file.getParent());
    }

    /** As QuorumStateData's JSON of version 1, whatever version is in the file. */
    private static JsonNode readQuorumState(File file) {
        ElectionState state = new FileQuorumStateStore(file).readElectionState().orElseThrow();
        return QuorumStateDataJsonConverter.write(
            state.toQuorumStateData((short) 1), QuorumStateData.HIGHEST_SUPPORTED_VERSION);
    }

    /** {kraft_version, data}: data is QuorumStateData's JSON of the version it brings (0 to 0, 1 to 1). */
    private static void writeQuorumState(File file, JsonNode content) {
        KRaftVersion kraft = KRaftVersion.fromFeatureLevel(Json.small(content, "kraft_version", 1));
        QuorumStateData data =
            QuorumStateDataJsonConverter.read(Json.required(content, "data"), kraft.quorumStateVersion());
        new FileQuorumStateStore(file).writeElectionState(ElectionState.fromQuorumStateData(data), kraft);
    }
}
