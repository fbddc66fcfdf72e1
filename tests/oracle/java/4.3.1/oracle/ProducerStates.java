package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.PackageAccess;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SnapshotFile;
import org.apache.kafka.storage.internals.log.TxnMetadata;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationStateEntry;

/**
 * `producer_states`: drives a ProducerStateManager by a list of operations and tells its state after each.
 *
 * <p>{runs: [{path, time, max_transaction_timeout_ms, producer_id_expiration_ms, operations}]} gives for each run
 * a list of {answer or error, state}. An exception is an answer; the state after it is told too.
 */
final class ProducerStates {
    private static final TopicPartition PARTITION = new TopicPartition("orders", 0);

    private final File directory;
    private final FixedTime time;
    private final int maxTransactionTimeoutMs;
    private final ProducerStateManagerConfig config;
    private ProducerStateManager manager;

    private ProducerStates(JsonNode run) throws IOException {
        directory = new File(Json.text(run, "path"));
        directory.mkdirs();
        time = new FixedTime(Json.number(run, "time", 0));
        maxTransactionTimeoutMs = Json.integer(run, "max_transaction_timeout_ms", 15 * 60 * 1000);
        config = new ProducerStateManagerConfig(Json.integer(run, "producer_id_expiration_ms", 86_400_000), true);
        open();
    }

    private void open() throws IOException {
        manager = new ProducerStateManager(PARTITION, directory, maxTransactionTimeoutMs, config, time);
    }

    static JsonNode run(JsonNode arguments) throws Exception {
        ArrayNode answers = Json.array();
        for (JsonNode run : arguments.get("runs")) {
            ProducerStates states = new ProducerStates(run);
            ArrayNode told = answers.addArray();
            for (JsonNode operation : run.get("operations"))
                told.add(states.attempt(operation));
        }
        return answers;
    }

    private ObjectNode attempt(JsonNode operation) throws Exception {
        ObjectNode told = Json.object();
        try {
            told.set("answer", operate(operation));
        } catch (Exception problem) {
            told.set("error", Json.error(problem));
        }
        told.set("state", state());
        return told;
    }

    private JsonNode operate(JsonNode operation) throws Exception {
        if (Json.has(operation, "time"))
            time.set(operation.get("time").longValue());
        long offset = Json.number(operation, "offset", 0);
        switch (Json.text(operation, "do")) {
            case "append":
                return append(operation);
            case "recover":
                return recover(operation);
            case "duplicate":
                return duplicate(operation);
            case "complete":
                manager.completeTxn(new CompletedTxn(
                    Json.number(operation, "producer_id", 0), offset,
                    Json.number(operation, "last_offset", 0), Json.flag(operation, "is_aborted", false)));
                return NullNode.instance;
            case "verify":
                manager.maybeCreateVerificationStateEntry(
                    Json.number(operation, "producer_id", 0), Json.integer(operation, "sequence", 0),
                    Json.small(operation, "epoch", 0), Json.flag(operation, "supports_epoch_bump", false));
                return NullNode.instance;
            case "clear_verification":
                manager.clearVerificationStateEntry(Json.number(operation, "producer_id", 0));
                return NullNode.instance;
            case "high_watermark":
                manager.onHighWatermarkUpdated(offset);
                return NullNode.instance;
            case "log_start_offset":
                manager.onLogStartOffsetIncremented(offset);
                return NullNode.instance;
            case "map_end_offset":
                manager.updateMapEndOffset(offset);
                return NullNode.instance;
            case "expire":
                manager.removeExpiredProducers(time.milliseconds());
                return NullNode.instance;
            case "late":
                return Json.object().put("late", manager.hasLateTransaction(time.milliseconds()));
            default:
                return operateOnFiles(operation, offset);
        }
    }

    private JsonNode operateOnFiles(JsonNode operation, long offset) throws Exception {
        switch (Json.text(operation, "do")) {
            case "snapshot":
                Optional<File> taken = manager.takeSnapshot(Json.flag(operation, "sync", true));
                return Json.object().put("name", taken.map(File::getName).orElse(null));
            case "truncate":
                manager.truncateAndReload(
                    Json.number(operation, "start", 0), Json.number(operation, "end", 0), time.milliseconds());
                return NullNode.instance;
            case "truncate_fully":
                manager.truncateFullyAndStartAt(offset);
                return NullNode.instance;
            case "truncate_fully_and_reload":
                manager.truncateFullyAndReloadSnapshots();
                return NullNode.instance;
            case "remove_strays":
                List<Long> bases = new ArrayList<>();
                operation.get("bases").forEach(base -> bases.add(base.longValue()));
                manager.removeStraySnapshots(bases);
                return NullNode.instance;
            case "delete_before":
                manager.deleteSnapshotsBefore(offset);
                return NullNode.instance;
            case "mark":
                Optional<SnapshotFile> marked = manager.removeAndMarkSnapshotForDeletion(offset);
                return Json.object().put("name", marked.map(file -> file.file().getName()).orElse(null));
            case "reopen":
                open();
                return NullNode.instance;
            case "write":
                Files.write(directory.toPath().resolve(Json.text(operation, "name")), Json.bytes(operation, "bytes"));
                return NullNode.instance;
            case "unlink":
                Files.deleteIfExists(directory.toPath().resolve(Json.text(operation, "name")));
                return NullNode.instance;
            default:
                throw new IllegalStateException("unknown operation " + operation);
        }
    }

    // ---------------------------------------------------------------------------------- batches

    private static Iterable<? extends RecordBatch> batches(JsonNode operation) throws IOException {
        return MemoryRecords.readableRecords(Json.buffer(operation, "bytes")).batches();
    }

    /** As UnifiedLog.append: all batches, then all producers, then all completed transactions. */
    private JsonNode append(JsonNode operation) throws Exception {
        AppendOrigin origin = AppendOrigin.valueOf(Json.text(operation, "origin"));
        short version = Json.small(operation, "transaction_version", -1);
        Map<Long, ProducerAppendInfo> producers = new HashMap<>();
        List<CompletedTxn> completed = new ArrayList<>();
        long end = manager.mapEndOffset();
        for (RecordBatch batch : batches(operation)) {
            if (batch.hasProducerId())
                UnifiedLog.updateProducers(manager, batch, producers, Optional.empty(), origin, version)
                    .ifPresent(completed::add);
            end = batch.lastOffset() + 1;
        }
        producers.values().forEach(manager::update);
        ArrayNode told = Json.array();
        for (CompletedTxn txn : completed)
            complete(txn, told);
        manager.updateMapEndOffset(end);
        return told;
    }

    /** As LogSegment.recover: batch by batch. */
    private JsonNode recover(JsonNode operation) throws Exception {
        ArrayNode told = Json.array();
        for (RecordBatch batch : batches(operation)) {
            if (batch.magic() < RecordBatch.MAGIC_VALUE_V2)
                continue;
            if (batch.hasProducerId()) {
                ProducerAppendInfo info = manager.prepareUpdate(batch.producerId(), AppendOrigin.REPLICATION);
                Optional<CompletedTxn> completed = info.append(batch, Optional.empty());
                manager.update(info);
                if (completed.isPresent())
                    complete(completed.get(), told);
            }
            manager.updateMapEndOffset(batch.lastOffset() + 1);
        }
        return told;
    }

    private void complete(CompletedTxn txn, ArrayNode told) {
        told.addArray().add(txn.producerId()).add(txn.firstOffset()).add(txn.lastOffset()).add(txn.isAborted())
            .add(manager.lastStableOffset(txn));
        manager.completeTxn(txn);
    }

    private JsonNode duplicate(JsonNode operation) throws Exception {
        RecordBatch batch = batches(operation).iterator().next();
        Optional<BatchMetadata> found = manager.lastEntry(batch.producerId())
            .flatMap(entry -> PackageAccess.findDuplicateBatch(entry, batch));
        return Json.object().put("last_offset", found.map(BatchMetadata::lastOffset).orElse(null));
    }

    // ---------------------------------------------------------------------------------- state

    private ObjectNode state() throws Exception {
        ObjectNode node = Json.object()
            .put("map_end_offset", manager.mapEndOffset())
            .put("last_snap_offset", (long) PackageAccess.field(manager, "lastSnapOffset"))
            .put("oldest_txn_last_timestamp", (long) PackageAccess.field(manager, "oldestTxnLastTimestamp"))
            .put("is_empty", manager.isEmpty())
            .put("first_unstable_offset", manager.firstUnstableOffset().map(found -> found.messageOffset).orElse(null));
        ArrayNode producers = node.putArray("producers");
        for (ProducerStateEntry entry : new TreeMap<>(manager.activeProducers()).values())
            producers.add(oracle.Files.describe(entry));
        transactions(node.putArray("ongoing"), "ongoingTxns");
        transactions(node.putArray("unreplicated"), "unreplicatedTxns");
        verifications(node.putArray("verifications"));
        ArrayNode files = node.putArray("files");
        File[] found = directory.listFiles();
        Arrays.sort(found);
        for (File file : found)
            files.addArray().add(file.getName()).add(file.length());
        ArrayNode snapshots = node.putArray("snapshots");
        Map<Long, SnapshotFile> known = PackageAccess.field(manager, "snapshots");
        for (SnapshotFile snapshot : known.values())
            snapshots.addArray().add(snapshot.offset).add(snapshot.file().getName());
        return node;
    }

    private void transactions(ArrayNode told, String field) throws Exception {
        Map<Long, TxnMetadata> transactions = PackageAccess.field(manager, field);
        for (TxnMetadata txn : transactions.values())
            told.addArray().add(txn.producerId).add(txn.firstOffset.messageOffset)
                .add(txn.lastOffset.isPresent() ? Long.valueOf(txn.lastOffset.getAsLong()) : null);
    }

    private void verifications(ArrayNode told) throws Exception {
        Map<Long, VerificationStateEntry> states = PackageAccess.field(manager, "verificationStates");
        for (Map.Entry<Long, VerificationStateEntry> each : new TreeMap<>(states).entrySet()) {
            VerificationStateEntry entry = each.getValue();
            told.addArray().add(each.getKey()).add(entry.timestamp()).add(entry.lowestSequence())
                .add(entry.epoch()).add(entry.supportsEpochBump());
        }
    }
}
