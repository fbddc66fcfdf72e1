package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordVersion;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.storage.internals.log.AbortedTxn;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * `run_log`: opens a partition directory as a broker would, takes steps, tells the state, closes it.
 *
 * <p>{path, copy_from, config, time, clean_shutdown, log_start_offset, recovery_point, topic_id, steps, close}.
 * Opening is Kafka's recovery, so evidence is never opened in place: copy_from is copied to path first.
 */
final class Logs implements AutoCloseable {
    private static final int NEVER = Integer.MAX_VALUE;
    private static final BrokerTopicStats METRICS = new BrokerTopicStats(); // global in Kafka, so one here

    private final FixedTime time;
    private final StillScheduler scheduler = new StillScheduler();
    private final UnifiedLog log;
    private boolean isOpen = true;

    Logs(File directory, JsonNode arguments) throws IOException {
        time = new FixedTime(Json.number(arguments, "time", 0));
        log = UnifiedLog.create(
            directory,
            config(arguments.path("config")),
            Json.number(arguments, "log_start_offset", 0),
            Json.number(arguments, "recovery_point", 0),
            scheduler,
            METRICS,
            time,
            Json.integer(arguments, "max_transaction_timeout_ms", 15 * 60 * 1000),
            new ProducerStateManagerConfig(
                Json.integer(arguments, "producer_id_expiration_ms", NEVER),
                Json.flag(arguments, "transaction_verification", false)),
            NEVER,
            new LogDirFailureChannel(10),
            Json.flag(arguments, "clean_shutdown", true),
            Optional.ofNullable(Json.text(arguments, "topic_id", null)).map(Uuid::fromString));
    }

    /** Kafka's own names; segment.bytes may be small, as Kafka's tests have it. */
    static LogConfig config(JsonNode settings) {
        Properties properties = new Properties();
        settings.properties().forEach(setting -> {
            boolean segmentBytes = setting.getKey().equals("segment.bytes");
            String name = segmentBytes ? LogConfig.INTERNAL_SEGMENT_BYTES_CONFIG : setting.getKey();
            properties.put(name, setting.getValue().asText());
        });
        return new LogConfig(properties);
    }

    static JsonNode run(JsonNode arguments) throws Exception {
        File directory = new File(Json.text(arguments, "path")).getAbsoluteFile();
        if (Json.has(arguments, "copy_from"))
            copy(Path.of(Json.text(arguments, "copy_from")), directory.toPath());
        Logs logs = new Logs(directory, arguments);
        ObjectNode answer = Json.object();
        try {
            answer.set("opened", logs.state());
            ArrayNode steps = answer.putArray("steps");
            for (JsonNode step : arguments.path("steps"))
                steps.add(logs.tryStep(step));
            answer.set("state", logs.state());
        } finally {
            logs.close(Json.text(arguments, "close", "clean"));
        }
        ArrayNode files = answer.putArray("files");
        String[] names = directory.list();
        Arrays.sort(names);
        for (String name : names)
            files.add(name);
        return answer;
    }

    UnifiedLog log() {
        return log;
    }

    static void copy(Path from, Path to) throws IOException {
        Files.walkFileTree(from, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult preVisitDirectory(Path folder, BasicFileAttributes attributes)
                throws IOException {
                Files.createDirectories(to.resolve(from.relativize(folder)));
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                Files.copy(file, to.resolve(from.relativize(file)), StandardCopyOption.COPY_ATTRIBUTES);
                return FileVisitResult.CONTINUE;
            }
        });
    }

    /** clean: as a broker that stops. crash: every file as it lies, indexes at their preallocated size. */
    void close(String how) {
        isOpen = false;
        log.removeLogMetrics();
        switch (how) {
            case "clean":
                log.flush(true);
                log.close();
                break;
            case "crash":
                log.closeHandlers();
                break;
            default:
                throw new IllegalArgumentException("close is clean or crash, not " + how);
        }
    }

    /** After an exception: no handle stays open, nothing is written any more. */
    @Override
    public void close() {
        if (isOpen)
            close("crash");
    }

    // ---------------------------------------------------------------------------------- steps

    JsonNode tryStep(JsonNode step) throws Exception {
        if (!Json.flag(step, "may_fail", false))
            return step(step);
        try {
            return step(step);
        } catch (Exception problem) {
            ObjectNode failed = Json.object();
            failed.set("error", Json.error(problem));
            return failed;
        }
    }

    private JsonNode step(JsonNode step) throws Exception {
        if (Json.has(step, "time"))
            time.set(step.get("time").longValue());
        switch (Json.text(step, "do", "nothing")) {
            case "nothing":
                return NullNode.instance;
            case "append":
                return append(step);
            case "roll":
                return Json.object().put("base_offset", log.roll().baseOffset());
            case "flush":
                log.flush(true);
                return NullNode.instance;
            case "high_watermark":
                return Json.object().put("high_watermark", log.updateHighWatermark(offset(step)));
            case "log_start_offset":
                return Json.object().put("moved", log.maybeIncrementLogStartOffset(
                    offset(step), LogStartOffsetIncrementReason.ClientRecordDeletion));
            case "maybe_update_high_watermark":
                return Json.object().put(
                    "high_watermark", log.maybeUpdateHighWatermark(offset(step)).orElse(null));
            case "maybe_increment_high_watermark":
                return Json.object().put(
                    "high_watermark",
                    log.maybeIncrementHighWatermark(new LogOffsetMetadata(offset(step)))
                        .map(old -> old.messageOffset).orElse(null));
            case "read":
                return LogAnswers.read(log, offset(step), step);
            case "offset_for_timestamp":
                return LogAnswers.offsetForTimestamp(log, step);
            case "end_offset_for_epoch":
                return LogAnswers.endOffsetForEpoch(log, Json.integer(step, "leader_epoch", 0));
            case "assign_epoch":
                log.assignEpochStartOffset(Json.integer(step, "leader_epoch", 0), offset(step));
                return NullNode.instance;
            case "start_verification":
                return Json.object().put("needed", log.maybeStartTransactionVerification(
                    step.get("producer_id").longValue(), Json.integer(step, "sequence", 0),
                    Json.small(step, "producer_epoch", 0), Json.flag(step, "supports_epoch_bump", false))
                    != VerificationGuard.SENTINEL);
            case "update_config":
                log.updateConfig(config(step.get("config")));
                return NullNode.instance;
            case "late_transaction":
                return Json.object().put("late", log.hasLateTransaction(time.milliseconds()));
            case "truncate_fully_and_start_at":
                log.truncateFullyAndStartAt(offset(step), Json.has(step, "log_start_offset")
                    ? Optional.of(step.get("log_start_offset").longValue()) : Optional.empty());
                return NullNode.instance;
            case "truncate_to":
                return Json.object().put("truncated", log.truncateTo(offset(step)));
            case "delete_old_segments":
                return Json.object().put("deleted", log.deleteOldSegments());
            case "remove_expired_producers":
                log.removeExpiredProducers(time.milliseconds());
                return NullNode.instance;
            case "producer_snapshot":
                log.takeProducerSnapshot();
                return NullNode.instance;
            case "run_pending":
                return Json.object().put("ran", scheduler.runPending());
            case "state":
                return state();
            default:
                throw new IllegalArgumentException("unknown step " + step);
        }
    }

    /** {offset}, or {delta} (0) away from the log's end or what {from} names. */
    private long offset(JsonNode step) {
        if (Json.has(step, "offset"))
            return step.get("offset").longValue();
        long delta = Json.number(step, "delta", 0);
        switch (Json.text(step, "from", "end")) {
            case "end": return log.logEndOffset() + delta;
            case "start": return log.logStartOffset() + delta;
            case "high_watermark": return log.highWatermark() + delta;
            case "last_stable": return log.lastStableOffset() + delta;
            case "active": return log.activeSegment().baseOffset() + delta;
            default: throw new IllegalArgumentException("from where? " + step);
        }
    }

    /** {batch or bytes, at_end, leader_epoch, origin, record_version, transaction_version, verified}. */
    private JsonNode append(JsonNode step) throws Exception {
        ByteBuffer bytes =
            Json.has(step, "bytes") ? Json.buffer(step, "bytes") : Batches.buildBatch(step.get("batch"));
        if (Json.has(step, "at_end"))
            LogAnswers.shift(bytes, log.logEndOffset() + step.get("at_end").longValue());
        MemoryRecords records = MemoryRecords.readableRecords(bytes);
        int leaderEpoch = Json.integer(step, "leader_epoch", 0);
        LogAppendInfo info;
        String origin = Json.text(step, "origin", "CLIENT");
        if (origin.equals("REPLICATION"))
            info = log.appendAsFollower(records, leaderEpoch);
        else if (Json.has(step, "record_version"))
            info = log.appendAsLeaderWithRecordVersion(
                records, leaderEpoch, RecordVersion.lookup((byte) step.get("record_version").intValue()));
        else
            info = log.appendAsLeader(
                records, leaderEpoch, AppendOrigin.valueOf(origin), RequestLocal.noCaching(),
                Json.has(step, "verified") // with the guard that this producer's verification gave
                    ? log.verificationGuard(step.get("verified").longValue()) : VerificationGuard.SENTINEL,
                Json.small(step, "transaction_version", 1));
        ObjectNode answer = Json.object()
            .put("first_offset", info.firstOffset())
            .put("last_offset", info.lastOffset())
            .put("max_timestamp", info.maxTimestamp())
            .put("log_append_time", info.logAppendTime())
            .put("log_end_offset", log.logEndOffset());
        return answer;
    }

    // ---------------------------------------------------------------------------------- state

    ObjectNode state() throws IOException {
        ObjectNode node = brief();
        ArrayNode segments = node.putArray("segments");
        for (LogSegment segment : log.logSegments())
            segments.add(describe(segment));
        return node;
    }

    /** The state without its segments: telling of those makes their index files, which are lazy. */
    ObjectNode brief() throws IOException {
        ObjectNode node = Json.object()
            .put("log_start_offset", log.logStartOffset())
            .put("log_end_offset", log.logEndOffset())
            .put("high_watermark", log.highWatermark())
            .put("last_stable_offset", log.lastStableOffset())
            .put("first_unstable_offset", log.firstUnstableOffset().orElse(null))
            .put("recovery_point", log.recoveryPoint())
            .put("size_in_bytes", log.size())
            .put("topic_id", log.topicId().map(Uuid::toString).orElse(null));
        ArrayNode epochs = node.putArray("leader_epochs");
        for (EpochEntry entry : log.leaderEpochCache().epochEntries())
            epochs.addObject().put("epoch", entry.epoch()).put("start_offset", entry.startOffset());
        ArrayNode producers = node.putArray("producers");
        Map<Long, ProducerStateEntry> active = new TreeMap<>(log.producerStateManager().activeProducers());
        for (ProducerStateEntry entry : active.values())
            producers.add(oracle.Files.describe(entry));
        ArrayNode aborted = node.putArray("aborted_transactions");
        for (AbortedTxn txn : log.collectAbortedTransactions(log.logStartOffset(), log.logEndOffset()))
            aborted.add(oracle.Files.describe(txn));
        return node;
    }

    private static ObjectNode describe(LogSegment segment) throws IOException {
        return Json.object()
            .put("base_offset", segment.baseOffset())
            .put("next_offset", segment.readNextOffset())
            .put("size_in_bytes", segment.size())
            .put("offset_index_entries", segment.offsetIndex().entries())
            .put("time_index_entries", segment.timeIndex().entries())
            .put("largest_timestamp", segment.largestTimestamp());
    }
}
