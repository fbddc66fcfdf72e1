package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogCleaningAbortedException;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.PackageAccess;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;

/**
 * `clean_logs`: Kafka's Cleaner on directories, pass after pass, each at a time of its own.
 *
 * <p>{runs: [arguments of run_log, and checkpoint, passes: [{time, steps, checkpoint, only_if_eligible,
 * dedupe_buffer_size, io_buffer_size, message_max_bytes, is_timed, during, abort_at}]]}. Without a checkpoint of its own
 * a pass begins where the one before ended. The n-th time that the cleaner asks whether to go on, the steps of
 * `during`[n] are taken, and at `abort_at` it is told to stop.
 */
final class Cleaning {
    private static final double LOAD_FACTOR = 0.9;
    private static final Throttler THROTTLER =
        new Throttler(Double.MAX_VALUE, Long.MAX_VALUE / 1_000_000, "oracle", "entries", Time.SYSTEM);

    private Cleaning() { }

    static JsonNode run(JsonNode arguments) throws Exception {
        ArrayNode runs = Json.array();
        for (JsonNode run : arguments.path("runs"))
            runs.add(runOne(run));
        return runs;
    }

    /** {opened or error, passes, state}. */
    private static ObjectNode runOne(JsonNode run) throws Exception {
        File directory = new File(Json.text(run, "path")).getAbsoluteFile();
        if (Json.has(run, "copy_from"))
            Logs.copy(Path.of(Json.text(run, "copy_from")), directory.toPath());
        ObjectNode told = Json.object();
        Logs logs;
        try {
            logs = new Logs(directory, run);
        } catch (Exception problem) {
            told.set("error", Json.error(problem));
            return told;
        }
        try (logs) {
            if (logs.log().logEndOffset() >= 0) // a damaged header can move it anywhere
                logs.log().updateHighWatermark(logs.log().logEndOffset());
            ArrayNode passes = told.putArray("passes");
            Optional<Long> checkpoint =
                Json.has(run, "checkpoint") ? Optional.of(run.get("checkpoint").longValue()) : Optional.empty();
            for (JsonNode pass : run.path("passes")) {
                for (JsonNode step : pass.path("steps"))
                    logs.tryStep(step);
                if (Json.has(pass, "checkpoint"))
                    checkpoint = Optional.of(pass.get("checkpoint").longValue());
                ObjectNode done = pass(logs, pass, checkpoint);
                passes.add(done);
                if (done.has("next_dirty_offset"))
                    checkpoint = Optional.of(done.get("next_dirty_offset").longValue());
            }
            told.set("state", logs.brief());
            logs.close(Json.text(run, "close", "clean"));
        }
        return told;
    }

    private static ObjectNode pass(Logs logs, JsonNode pass, Optional<Long> checkpoint) throws Exception {
        long now = pass.get("time").longValue();
        FixedTime time = new FixedTime(now);
        ObjectNode told = Json.object();
        try {
            LogToClean cleanable = select(logs.log(), checkpoint, now, told);
            if (Json.flag(pass, "only_if_eligible", false) && !told.get("is_eligible").booleanValue())
                return told;
            int[] asked = {0};
            Cleaner cleaner = new Cleaner(
                0,
                new SkimpyOffsetMap(Json.integer(pass, "dedupe_buffer_size", 1 << 20)),
                Json.integer(pass, "io_buffer_size", 512 * 1024) / 2,
                Json.integer(pass, "message_max_bytes", 1024 * 1024 + 12),
                LOAD_FACTOR,
                THROTTLER,
                time,
                partition -> onCheck(logs, pass, ++asked[0]));
            long start = System.nanoTime();
            long cpuStart = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            Map.Entry<Long, CleanerStats> cleaned = cleaner.clean(cleanable);
            if (Json.flag(pass, "is_timed", false)) {
                long cpuEnd = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
                told.put("cpu_seconds", (cpuEnd - cpuStart) / 1e9).put("seconds", (System.nanoTime() - start) / 1e9);
            }
            told.put("next_dirty_offset", cleaned.getKey());
            told.set("stats", describe(cleaned.getValue()));
        } catch (Exception problem) {
            told.set("error", Json.error(problem));
        }
        return told;
    }

    private static void onCheck(Logs logs, JsonNode pass, int number) {
        for (JsonNode step : pass.path("during").path(Integer.toString(number))) {
            try {
                logs.tryStep(step);
            } catch (Exception problem) {
                throw new IllegalStateException(problem);
            }
        }
        if (Json.integer(pass, "abort_at", 0) == number)
            throw new LogCleaningAbortedException();
    }

    private static LogToClean select(UnifiedLog log, Optional<Long> checkpoint, long now, ObjectNode told)
        throws Exception {
        long[] offsets = PackageAccess.cleanableOffsets(log, checkpoint, now);
        long delay = PackageAccess.maxCompactionDelay(log, offsets[0], now);
        LogToClean cleanable = new LogToClean(log, offsets[0], offsets[1], delay > 0);
        double ratio = cleanable.cleanableRatio();
        boolean isForced = delay > 0 && cleanable.cleanableBytes() > 0;
        told.put("first_dirty_offset", offsets[0])
            .put("first_uncleanable_dirty_offset", offsets[1])
            .put("force_update_checkpoint", offsets[2] == 1)
            .put("max_compaction_delay", delay)
            .put("first_uncleanable_offset", cleanable.firstUncleanableOffset())
            .put("clean_bytes", cleanable.cleanBytes())
            .put("cleanable_bytes", cleanable.cleanableBytes())
            .put("cleanable_ratio", Double.isNaN(ratio) ? null : ratio)
            .put("is_eligible", cleanable.totalBytes() > 0
                && (isForced || ratio > log.config().minCleanableRatio));
        return cleanable;
    }

    private static ObjectNode describe(CleanerStats stats) throws ReflectiveOperationException {
        return Json.object()
            .put("map_bytes_read", PackageAccess.mapBytesRead(stats))
            .put("map_messages_read", stats.mapMessagesRead())
            .put("bytes_read", stats.bytesRead())
            .put("messages_read", stats.messagesRead())
            .put("invalid_messages_read", stats.invalidMessagesRead())
            .put("bytes_written", stats.bytesWritten())
            .put("messages_written", stats.messagesWritten())
            .put("buffer_utilization", stats.bufferUtilization());
    }
}
