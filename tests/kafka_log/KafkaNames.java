import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Optional;
import java.util.concurrent.Callable;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.internals.Topic;
import org.apache.kafka.snapshot.SnapshotPath;
import org.apache.kafka.snapshot.Snapshots;
import org.apache.kafka.storage.internals.log.LogFileUtils;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/** What Kafka makes of names: a name a line in, its answers a line out, parted by tabs. */
public final class KafkaNames {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String name = line;
            TopicPartition partition = new TopicPartition(name, 12);
            out.println(String.join("\t",
                answer(() -> directory(name)),
                answer(() -> Long.toString(LogFileUtils.offsetFromFileName(name))),
                answer(() -> snapshot(name)),
                answer(() -> Boolean.toString(Topic.isValid(name))),
                UnifiedLog.logDirName(partition),
                UnifiedLog.logDeleteDirName(partition),
                UnifiedLog.logStrayDirName(partition),
                UnifiedLog.logFutureDirName(partition)));
        }
        out.flush();
    }

    private static String answer(Callable<String> question) {
        try {
            return question.call();
        } catch (Exception refused) {
            return "refused";
        }
    }

    private static String directory(String name) throws Exception {
        TopicPartition partition = UnifiedLog.parseTopicPartitionName(new File("parent", name));
        return partition.topic() + " " + partition.partition();
    }

    private static String snapshot(String name) {
        Optional<SnapshotPath> path = Snapshots.parse(Path.of(name));
        return path.map(found -> found.snapshotId().offset() + " " + found.snapshotId().epoch()
            + (found.partial() ? " partial" : "") + (found.deleted() ? " deleted" : ""))
            .orElse("no snapshot");
    }
}
