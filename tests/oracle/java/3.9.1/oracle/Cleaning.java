package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import kafka.log.Cleaner;
import kafka.log.CleanerStats;
import kafka.log.LogCleanerManager$;
import kafka.log.LogToClean;
import kafka.log.OffsetsToClean;
import kafka.log.UnifiedLog;
import kafka.server.BrokerTopicStats;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.utils.Throttler;
import scala.Option;
import scala.Tuple2;
import scala.runtime.BoxedUnit;

/** `clean_logs`, as of 4.3.1, with fewer steps: roll, high_watermark, update_config, delete_old_segments, append. */
final class Cleaning {
    private static final double LOAD_FACTOR = 0.9;
    private static final int NEVER = Integer.MAX_VALUE;
    private static final BrokerTopicStats METRICS = new BrokerTopicStats(false);
    private static final Throttler THROTTLER =
        new Throttler(Double.MAX_VALUE, Long.MAX_VALUE / 1_000_000, "oracle", "entries", Time.SYSTEM);

    private final FixedTime time;
    private final UnifiedLog log;

    private Cleaning(File directory, JsonNode run) {
        time = new FixedTime(Json.number(run, "time", 0));
        log = UnifiedLog.apply(
            directory,
            config(run.path("config")),
            Json.number(run, "log_start_offset", 0),
            Json.number(run, "recovery_point", 0),
            new StillScheduler(),
            METRICS,
            time,
            15 * 60 * 1000,
            new ProducerStateManagerConfig(NEVER, false),
            NEVER,
            new LogDirFailureChannel(10),
            Json.flag(run, "clean_shutdown", true),
            Option.empty(),
            true,
            new ConcurrentHashMap<>(),
            false,
            LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
    }

    static JsonNode run(JsonNode arguments) throws Exception {
        ArrayNode runs = Json.array();
        for (JsonNode run : arguments.path("runs"))
            runs.add(runOne(run));
        return runs;
    }

    private static ObjectNode runOne(JsonNode run) throws Exception {
        File directory = new File(Json.text(run, "path")).getAbsoluteFile();
        copy(Path.of(Json.text(run, "copy_from")), directory.toPath());
        Cleaning cleaning = new Cleaning(directory, run);
        UnifiedLog log = cleaning.log;
        ObjectNode told = Json.object();
        log.updateHighWatermark(log.logEndOffset());
        Option<Object> checkpoint =
            Json.has(run, "checkpoint") ? Option.apply(run.get("checkpoint").longValue()) : Option.empty();
        ArrayNode passes = told.putArray("passes");
        for (JsonNode pass : run.path("passes")) {
            for (JsonNode step : pass.path("steps"))
                cleaning.step(step);
            if (Json.has(pass, "checkpoint"))
                checkpoint = Option.apply(pass.get("checkpoint").longValue());
            ObjectNode done = cleaning.pass(pass, checkpoint);
            passes.add(done);
            if (done.has("next_dirty_offset"))
                checkpoint = Option.apply(done.get("next_dirty_offset").longValue());
        }
        log.removeLogMetrics();
        if (Json.text(run, "close", "clean").equals("clean")) {
            log.flush(true);
            log.close();
        } else {
            log.closeHandlers();
        }
        return told;
    }

    private static LogConfig config(JsonNode settings) {
        Properties properties = new Properties();
        settings.properties().forEach(setting -> properties.put(setting.getKey(), setting.getValue().asText()));
        return new LogConfig(properties);
    }

    private void step(JsonNode step) throws Exception {
        if (Json.has(step, "time"))
            time.set(step.get("time").longValue());
        switch (Json.text(step, "do")) {
            case "roll":
                log.roll(Option.empty());
                break;
            case "high_watermark":
                log.updateHighWatermark(log.logEndOffset());
                break;
            case "update_config":
                log.updateConfig(config(step.get("config")));
                break;
            case "delete_old_segments":
                log.deleteOldSegments();
                break;
            case "append":
                log.appendAsLeader(
                    MemoryRecords.readableRecords(Json.buffer(step, "bytes")), Json.integer(step, "leader_epoch", 0),
                    AppendOrigin.valueOf(Json.text(step, "origin", "CLIENT")), log.appendAsLeader$default$4(),
                    log.appendAsLeader$default$5(), log.appendAsLeader$default$6());
                break;
            default:
                throw new IllegalArgumentException("unknown step " + step);
        }
    }

    private ObjectNode pass(JsonNode pass, Option<Object> checkpoint) throws Exception {
        long now = pass.get("time").longValue();
        ObjectNode told = Json.object();
        try {
            LogToClean cleanable = select(checkpoint, now, told);
            if (Json.flag(pass, "only_if_eligible", false) && !told.get("is_eligible").booleanValue())
                return told;
            Cleaner cleaner = new Cleaner(
                0,
                new SkimpyOffsetMap(Json.integer(pass, "dedupe_buffer_size", 1 << 20)),
                Json.integer(pass, "io_buffer_size", 512 * 1024) / 2,
                Json.integer(pass, "message_max_bytes", 1024 * 1024 + 12),
                LOAD_FACTOR,
                THROTTLER,
                new FixedTime(now),
                partition -> BoxedUnit.UNIT);
            Tuple2<Object, CleanerStats> cleaned = cleaner.clean(cleanable);
            told.put("next_dirty_offset", (Long) cleaned._1());
            told.set("stats", describe(cleaned._2()));
        } catch (Exception problem) {
            told.set("error", Json.error(problem));
        }
        return told;
    }

    private LogToClean select(Option<Object> checkpoint, long now, ObjectNode told) {
        LogCleanerManager$ manager = LogCleanerManager$.MODULE$;
        OffsetsToClean offsets = manager.cleanableOffsets(log, checkpoint, now);
        long delay = manager.kafka$log$LogCleanerManager$$maxCompactionDelay(log, offsets.firstDirtyOffset(), now);
        LogToClean cleanable = new LogToClean(
            log.topicPartition(), log, offsets.firstDirtyOffset(), offsets.firstUncleanableDirtyOffset(), delay > 0);
        double ratio = cleanable.cleanableRatio();
        boolean isForced = delay > 0 && cleanable.cleanableBytes() > 0;
        told.put("first_dirty_offset", offsets.firstDirtyOffset())
            .put("first_uncleanable_dirty_offset", offsets.firstUncleanableDirtyOffset())
            .put("force_update_checkpoint", offsets.forceUpdateCheckpoint())
            .put("max_compaction_delay", delay)
            .put("first_uncleanable_offset", cleanable.firstUncleanableOffset())
            .put("clean_bytes", cleanable.cleanBytes())
            .put("cleanable_bytes", cleanable.cleanableBytes())
            .put("cleanable_ratio", Double.isNaN(ratio) ? null : ratio)
            .put("is_eligible", cleanable.totalBytes() > 0
                && (isForced || ratio > log.config().minCleanableRatio));
        return cleanable;
    }

    private static ObjectNode describe(CleanerStats stats) {
        return Json.object()
            .put("map_bytes_read", stats.mapBytesRead())
            .put("map_messages_read", stats.mapMessagesRead())
            .put("bytes_read", stats.bytesRead())
            .put("messages_read", stats.messagesRead())
            .put("invalid_messages_read", stats.invalidMessagesRead())
            .put("bytes_written", stats.bytesWritten())
            .put("messages_written", stats.messagesWritten())
            .put("buffer_utilization", stats.bufferUtilization());
    }

    private static void copy(Path from, Path to) throws IOException {
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
}
