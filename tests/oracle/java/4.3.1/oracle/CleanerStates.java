package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.TextNode;
import com.yammer.metrics.core.Gauge;
import com.yammer.metrics.core.Metric;
import com.yammer.metrics.core.MetricName;
import java.io.File;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.server.metrics.KafkaYammerMetrics;
import org.apache.kafka.storage.internals.log.CleanerConfig;
import org.apache.kafka.storage.internals.log.LogCleaner;
import org.apache.kafka.storage.internals.log.LogCleanerManager;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.PackageAccess;
import org.apache.kafka.storage.internals.log.PreCleanStats;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * `run_cleaner_states`: calls of LogCleanerManager, and turns of a cleaner thread, on the logs of several log dirs.
 *
 * <p>{runs: [{root, copy_from, dirs: [name], logs: {"dir/topic-0": arguments of run_log}, time, io_buffer_size,
 * operations}]}: after every operation the states, what is uncleanable, the checkpoints and what is offline. Logs are
 * looked at in the order of their names. An abort that waits does so in a thread of its own.
 */
final class CleanerStates {
    private final Path root;
    private final List<String> dirs = new ArrayList<>();
    private final Map<String, Logs> opened = new TreeMap<>();
    private final Map<TopicPartition, UnifiedLog> known =
        new TreeMap<>(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition));
    private final ConcurrentSkipListMap<TopicPartition, UnifiedLog> logs =
        new ConcurrentSkipListMap<>(Comparator.comparing(TopicPartition::topic)
            .thenComparing(TopicPartition::partition));
    private final Map<TopicPartition, Thread> aborting = new TreeMap<>(Comparator.comparing(TopicPartition::toString));
    private final LogDirFailureChannel failures = new LogDirFailureChannel(10);
    private final FixedTime time;
    private final LogCleaner cleaner;
    private final LogCleanerManager manager;
    private final LogCleaner.CleanerThread thread;

    private CleanerStates(JsonNode run) throws Exception {
        root = Path.of(Json.text(run, "root")).toAbsolutePath();
        Logs.copy(Path.of(Json.text(run, "copy_from")), root);
        time = new FixedTime(Json.number(run, "time", 0));
        List<File> files = new ArrayList<>();
        for (JsonNode dir : run.path("dirs")) {
            dirs.add(dir.asText());
            files.add(root.resolve(dir.asText()).toFile());
        }
        for (Map.Entry<String, JsonNode> each : run.path("logs").properties()) {
            Logs one = new Logs(root.resolve(each.getKey()).toFile(), each.getValue());
            one.log().updateHighWatermark(one.log().logEndOffset());
            opened.put(each.getKey(), one);
            known.put(one.log().topicPartition(), one.log());
        }
        logs.putAll(known);
        cleaner = new LogCleaner(
            new CleanerConfig(1, 1 << 20, 0.9, Json.integer(run, "io_buffer_size", 1 << 16), 1 << 20,
                Double.MAX_VALUE, 0, true),
            files, logs, failures, time);
        manager = cleaner.cleanerManager();
        thread = cleaner.new CleanerThread(0);
    }

    static JsonNode run(JsonNode arguments) throws Exception {
        ArrayNode runs = Json.array();
        for (JsonNode run : arguments.path("runs")) {
            CleanerStates states = new CleanerStates(run);
            ArrayNode told = runs.addArray();
            try {
                for (JsonNode operation : run.path("operations"))
                    told.add(states.after(operation));
            } finally {
                states.close();
            }
        }
        return runs;
    }

    private void close() throws Exception {
        for (TopicPartition each : List.copyOf(aborting.keySet())) {
            manager.doneDeleting(List.of(each));
            settle();
        }
        cleaner.removeMetrics();
        opened.values().forEach(Logs::close);
    }

    private ObjectNode after(JsonNode operation) throws Exception {
        ObjectNode told = Json.object();
        try {
            told.set("answer", operate(operation));
        } catch (Exception problem) {
            told.put("error", problem.getClass().getSimpleName());
        }
        settle();
        ObjectNode states = told.putObject("states");
        for (TopicPartition each : known.keySet())
            PackageAccess.cleaningState(manager, each).ifPresent(state -> states.put(each.toString(), state));
        ObjectNode uncleanable = told.putObject("uncleanable");
        ObjectNode checkpoints = told.putObject("checkpoints");
        for (String dir : dirs) {
            String path = root.resolve(dir).toString();
            ObjectNode one = uncleanable.putObject(dir);
            one.set("partitions", names(manager.uncleanablePartitions(path)));
            one.set("count", gauge("uncleanable-partitions-count", path));
            one.set("bytes", gauge("uncleanable-bytes", path));
            checkpoints.put(dir, java.nio.file.Files.readString(
                root.resolve(dir).resolve(LogCleanerManager.OFFSET_CHECKPOINT_FILE)));
        }
        ArrayNode offline = told.putArray("offline"); // the gauges read checkpoints too
        for (String dir : dirs)
            if (failures.hasOfflineLogDir(root.resolve(dir).toString()))
                offline.add(dir);
        return told;
    }

    private JsonNode operate(JsonNode operation) throws Exception {
        if (Json.has(operation, "time"))
            time.set(operation.get("time").longValue());
        TopicPartition partition = partition(operation, "partition");
        File dir = Json.has(operation, "dir") ? root.resolve(Json.text(operation, "dir")).toFile() : null;
        switch (Json.text(operation, "do")) {
            case "grab":
                return describe(manager.grabFilthiestCompactedLog(time, new PreCleanStats()));
            case "pause_non_compacted":
                return names(manager.pauseCleaningForNonCompactedPartitions().stream().map(Map.Entry::getKey).toList());
            case "deletable":
                return names(manager.deletableLogs().keySet());
            case "abort":
                abort(partition, () -> manager.abortCleaning(partition));
                break;
            case "abort_and_pause":
                abort(partition, () -> manager.abortAndPauseCleaning(partition));
                break;
            case "resume":
                manager.resumeCleaning(Set.of(partition));
                break;
            case "check":
                manager.checkCleaningAborted(partition);
                break;
            case "done_cleaning":
                manager.doneCleaning(partition, dir, operation.get("offset").longValue());
                break;
            case "done_deleting":
                manager.doneDeleting(List.of(partition));
                break;
            case "mark_uncleanable":
                manager.markPartitionUncleanable(dir.getPath(), partition);
                break;
            case "maintain":
                manager.maintainUncleanablePartitions();
                break;
            case "update_checkpoint":
                manager.updateCheckpoints(dir, Optional.of(Map.entry(partition, operation.get("offset").longValue())),
                    Optional.empty());
                break;
            case "remove_checkpoint":
                manager.updateCheckpoints(dir, Optional.empty(), Optional.ofNullable(partition));
                break;
            case "truncate_checkpoint":
                manager.maybeTruncateCheckpoint(dir, partition, operation.get("offset").longValue());
                break;
            case "alter_dir":
                manager.alterCheckpointDir(partition, dir, root.resolve(Json.text(operation, "to")).toFile());
                break;
            case "dir_failure":
                manager.handleLogDirFailure(dir.getPath());
                break;
            case "write_checkpoint":
                java.nio.file.Files.writeString(
                    dir.toPath().resolve(LogCleanerManager.OFFSET_CHECKPOINT_FILE), Json.text(operation, "text"));
                break;
            case "remove_log":
                logs.remove(partition);
                break;
            case "add_log":
                logs.put(partition, known.get(partition));
                break;
            case "log":
                opened.get(Json.text(operation, "log")).tryStep(operation.get("step"));
                break;
            case "work":
                thread.doWork();
                break;
            default:
                throw new IllegalArgumentException("unknown operation " + operation);
        }
        return NullNode.instance;
    }

    private TopicPartition partition(JsonNode operation, String name) {
        if (!Json.has(operation, name))
            return null;
        String text = Json.text(operation, name);
        int dash = text.lastIndexOf('-');
        return new TopicPartition(text.substring(0, dash), Integer.parseInt(text.substring(dash + 1)));
    }

    /** Until it is done, or has to wait for whoever cleans. */
    private void abort(TopicPartition partition, Runnable call) throws Exception {
        RuntimeException[] problem = new RuntimeException[1];
        boolean isWaiting = aborting.containsKey(partition);
        Thread waiting = new Thread(() -> {
            try {
                call.run();
            } catch (RuntimeException failed) {
                problem[0] = failed;
            }
        });
        waiting.start();
        while (waiting.isAlive()) {
            boolean isAborted = PackageAccess.cleaningState(manager, partition).equals(Optional.of("aborted"));
            if (isAborted && !isWaiting) {
                aborting.put(partition, waiting);
                return;
            }
            waiting.join(1);
        }
        if (problem[0] != null)
            throw problem[0];
    }

    /** Whoever waited for an abort and need no longer goes on, and comes to its end. */
    private void settle() throws InterruptedException {
        for (TopicPartition each : List.copyOf(aborting.keySet())) {
            if (!PackageAccess.cleaningState(manager, each).equals(Optional.of("aborted")))
                aborting.remove(each).join();
        }
    }

    private static JsonNode describe(Optional<LogToClean> grabbed) {
        if (grabbed.isEmpty())
            return NullNode.instance;
        LogToClean found = grabbed.get();
        return Json.object()
            .put("partition", found.topicPartition().toString())
            .put("first_dirty_offset", found.firstDirtyOffset())
            .put("first_uncleanable_offset", found.firstUncleanableOffset())
            .put("cleanable_bytes", found.cleanableBytes());
    }

    private static ArrayNode names(Collection<TopicPartition> partitions) {
        ArrayNode names = Json.array();
        Set<String> sorted = new TreeSet<>();
        partitions.forEach(each -> sorted.add(each.toString()));
        sorted.forEach(names::add);
        return names;
    }

    /** As the broker's metrics have it; null if asking fails. */
    private static JsonNode gauge(String name, String dir) {
        for (Map.Entry<MetricName, Metric> each : KafkaYammerMetrics.defaultRegistry().allMetrics().entrySet()) {
            if (!each.getKey().getName().equals(name) || !each.getKey().getMBeanName().contains(dir))
                continue;
            try {
                return Json.MAPPER.valueToTree(((Gauge<?>) each.getValue()).value());
            } catch (RuntimeException failed) {
                return NullNode.instance;
            }
        }
        return TextNode.valueOf("no gauge " + name);
    }
}
