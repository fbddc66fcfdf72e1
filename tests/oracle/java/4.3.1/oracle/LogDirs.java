package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import kafka.log.LogManager;
import org.apache.kafka.storage.internals.log.CleanerConfig;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;
import scala.jdk.javaapi.CollectionConverters;

/** `start_log_manager`: LogManager.loadLogs on log dirs, in place, then both checkpoints; no shutdown. */
final class LogDirs {
    private static final BrokerTopicStats METRICS = new BrokerTopicStats();

    private LogDirs() { }

    /** {paths, config, time, stray: [topic ids]} -> {logs: {directory: offsets}, offline, error}. */
    static JsonNode start(JsonNode arguments) throws Exception {
        List<File> folders = new ArrayList<>();
        arguments.path("paths").forEach(path -> folders.add(new File(path.asText()).getAbsoluteFile()));
        Set<String> stray = new HashSet<>();
        arguments.path("stray").forEach(topicId -> stray.add(topicId.asText()));
        LogConfig config = Logs.config(arguments.path("config"));
        LogDirFailureChannel failures = new LogDirFailureChannel(10);
        LogManager manager = new LogManager(
            CollectionConverters.asScala(folders).toSeq(),
            CollectionConverters.asScala(List.<File>of()).toSeq(),
            resource -> new Properties(),
            config,
            new CleanerConfig(false),
            1,
            1000L,
            10000L,
            10000L,
            1000L,
            15 * 60 * 1000,
            new ProducerStateManagerConfig(Integer.MAX_VALUE, false),
            Integer.MAX_VALUE,
            new StillScheduler(),
            METRICS,
            failures,
            new FixedTime(Json.number(arguments, "time", 0)),
            false,
            1000L,
            LogManager.$lessinit$greater$default$20());
        try {
            manager.loadLogs(config, scala.collection.immutable.Map$.MODULE$.empty(), log ->
                log.topicId().map(id -> stray.contains(id.toString())).orElse(true));
            manager.checkpointLogRecoveryOffsets();
            manager.checkpointLogStartOffsets();
            return describe(manager).put("offline", isOffline(folders, failures));
        } catch (Exception problem) {
            ObjectNode answer = describe(manager).put("offline", isOffline(folders, failures));
            answer.set("error", Json.error(problem));
            return answer;
        } finally {
            manager.dirLocks().foreach(lock -> {
                try {
                    lock.destroy();
                } catch (Exception ignored) {
                    // the next test has other directories
                }
                return null;
            });
        }
    }

    private static boolean isOffline(List<File> folders, LogDirFailureChannel failures) {
        return folders.stream().anyMatch(folder -> failures.hasOfflineLogDir(folder.getPath()));
    }

    private static ObjectNode describe(LogManager manager) {
        ObjectNode logs = Json.object();
        for (UnifiedLog log : CollectionConverters.asJava(manager.allLogs())) {
            logs.putObject(log.dir().getName())
                .put("log_start_offset", log.logStartOffset())
                .put("log_end_offset", log.logEndOffset())
                .put("recovery_point", log.recoveryPoint());
            log.removeLogMetrics();
            log.closeHandlers();
        }
        ObjectNode answer = Json.object();
        answer.set("logs", logs);
        return answer;
    }
}
