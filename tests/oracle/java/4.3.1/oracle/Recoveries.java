package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.lang.management.ManagementFactory;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.raft.MetadataLogConfig;
import org.apache.kafka.raft.internals.KafkaRaftLog;

/** What a starting broker does to directories: many at once, each left as a broker that then dies leaves it. */
final class Recoveries {
    private Recoveries() { }

    /** `open_logs` {logs: [arguments of run_log]}: for each {opened} or {error}, {seconds, cpu_seconds}. */
    static JsonNode openLogs(JsonNode arguments) {
        ArrayNode answers = Json.array();
        for (JsonNode log : arguments.path("logs"))
            answers.add(openLog(log));
        return answers;
    }

    private static ObjectNode openLog(JsonNode arguments) {
        ObjectNode answer = Json.object();
        long start = System.nanoTime();
        long cpuStart = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
        try {
            Logs logs = new Logs(new File(Json.text(arguments, "path")).getAbsoluteFile(), arguments);
            answer.put("seconds", (System.nanoTime() - start) / 1e9);
            long cpuEnd = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            answer.put("cpu_seconds", (cpuEnd - cpuStart) / 1e9);
            try {
                answer.set("opened", logs.state());
            } catch (Throwable problem) {
                answer.set("state_error", Json.error(problem));
            } finally {
                logs.close("crash");
            }
        } catch (Throwable problem) { // an Error too: Kafka's loader can meet one
            answer.set("error", Json.error(problem));
        }
        return answer;
    }

    /** `open_metadata_log` {path, time}: KafkaRaftLog.createLog, then closed without a flush. */
    static JsonNode openMetadataLog(JsonNode arguments) throws Exception {
        File directory = new File(Json.text(arguments, "path")).getAbsoluteFile();
        KafkaRaftLog log = KafkaRaftLog.createLog(
            new TopicPartition("__cluster_metadata", 0),
            Uuid.METADATA_TOPIC_ID,
            directory,
            new FixedTime(Json.number(arguments, "time", 0)),
            new StillScheduler(),
            new MetadataLogConfig(new AbstractConfig(MetadataLogConfig.CONFIG_DEF, Map.of(), false)),
            1);
        return Json.object()
            .put("log_start_offset", log.startOffset())
            .put("log_end_offset", log.endOffset().offset());
    }
}
