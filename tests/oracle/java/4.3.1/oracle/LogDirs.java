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
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.image.TopicsDelta;
import org.apache.kafka.image.TopicsImage;
import org.apache.kafka.storage.internals.log.CleanerConfig;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;

/** `start_log_manager`: LogManager.loadLogs on log dirs, in place, then both checkpoints; no shutdown.
 *  `initialize_log_dirs`: what KafkaRaftServer does to meta.properties before that. */
final class LogDirs {
    private static final BrokerTopicStats METRICS = new BrokerTopicStats();

    private LogDirs() { }

    /** {paths, node_id} -> {}: throws if the node would not start with the first path's metadata log. */
    static JsonNode initialize(JsonNode arguments) {
        List<String> paths = new ArrayList<>();
        arguments.path("paths").forEach(path -> paths.add(path.asText()));
        int nodeId = arguments.path("node_id").asInt();
        Properties properties = new Properties();
        properties.put("process.roles", "broker,controller");
        properties.put("node.id", Integer.toString(nodeId));
        properties.put("controller.quorum.voters", nodeId + "@localhost:9093");
        properties.put("listeners", "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093");
        properties.put("controller.listener.names", "CONTROLLER");
        properties.put("log.dirs", String.join(",", paths));
        KafkaRaftServer.initializeLogDirs(
            KafkaConfig.fromProps(properties), LoggerFactory.getLogger(LogDirs.class), "");
        return Json.object();
    }

    /** {paths, config, time, stray: [topic ids] or image} -> {logs: {directory: offsets}, offline, error}.
     *  image: {broker_id, partitions: [{topic_id, partition, replicas, directories}]}. */
    static JsonNode start(JsonNode arguments) throws Exception {
        List<File> folders = new ArrayList<>();
        arguments.path("paths").forEach(path -> folders.add(new File(path.asText()).getAbsoluteFile()));
        Set<String> stray = new HashSet<>();
        arguments.path("stray").forEach(topicId -> stray.add(topicId.asText()));
        int brokerId = arguments.path("image").path("broker_id").asInt();
        TopicsImage image = image(arguments.path("image").path("partitions"));
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
                log.topicId().map(id -> arguments.has("image")
                    ? org.apache.kafka.storage.internals.log.LogManager.isStrayReplica(
                        image.partitionReplicas(id, log.topicPartition().partition()), brokerId, log)
                    : stray.contains(id.toString())).orElse(true));
            if (arguments.has("image")) {
                manager.recoverAbandonedFutureLogs(brokerId, image);
            }
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

    private static TopicsImage image(JsonNode partitions) {
        TopicsDelta delta = new TopicsDelta(TopicsImage.EMPTY);
        for (JsonNode each : partitions) {
            Uuid id = Uuid.fromString(each.path("topic_id").asText());
            delta.replay(new TopicRecord().setTopicId(id).setName("topic-" + id));
            List<Integer> replicas = new ArrayList<>();
            each.path("replicas").forEach(replica -> replicas.add(replica.asInt()));
            List<Uuid> directories = new ArrayList<>();
            each.path("directories").forEach(one -> directories.add(Uuid.fromString(one.asText())));
            delta.replay(new PartitionRecord()
                .setTopicId(id)
                .setPartitionId(each.path("partition").asInt())
                .setReplicas(replicas)
                .setIsr(replicas)
                .setLeader(replicas.get(0))
                .setLeaderEpoch(1)
                .setPartitionEpoch(1)
                .setDirectories(directories));
        }
        return delta.apply();
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
