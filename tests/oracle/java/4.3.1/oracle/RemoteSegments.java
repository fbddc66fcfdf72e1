package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Iterator;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.server.log.remote.metadata.storage.RemotePartitionMetadataStore;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemoteLogManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;

/**
 * `remote_segments`: events of __remote_log_metadata, one by one, to a RemotePartitionMetadataStore.
 *
 * <p>{events: [base64], lineage: {epoch: offset}, log_end_offset}: after each event the `segments` of its partition
 * (`id`, `state`, `in_lineage`), or `error`.
 */
final class RemoteSegments {
    private static final RemoteLogMetadataSerde SERDE = new RemoteLogMetadataSerde();

    private RemoteSegments() { }

    static JsonNode run(JsonNode arguments) throws Exception {
        Method list = RemotePartitionMetadataStore.class
            .getDeclaredMethod("listRemoteLogSegments", TopicIdPartition.class);
        list.setAccessible(true);
        Method isWithin = RemoteLogManager.class.getDeclaredMethod(
            "isRemoteSegmentWithinLeaderEpochs", RemoteLogSegmentMetadata.class, long.class, NavigableMap.class);
        isWithin.setAccessible(true);
        NavigableMap<Integer, Long> lineage = new TreeMap<>();
        for (Map.Entry<String, JsonNode> entry : arguments.get("lineage").properties())
            lineage.put(Integer.valueOf(entry.getKey()), entry.getValue().longValue());
        long end = Json.number(arguments, "log_end_offset", Long.MAX_VALUE);
        RemotePartitionMetadataStore store = new RemotePartitionMetadataStore();
        ArrayNode answers = Json.array();
        for (JsonNode event : arguments.get("events")) {
            ObjectNode answer = Json.object();
            answers.add(answer);
            try {
                RemoteLogMetadata metadata = SERDE.deserialize(event.binaryValue());
                TopicIdPartition partition = metadata.topicIdPartition();
                store.maybeLoadPartition(partition);
                store.markInitialized(partition);
                try {
                    store.handleRemoteLogMetadata(metadata);
                } catch (RuntimeException problem) {
                    answer.set("error", Json.error(problem));
                }
                store.maybeLoadPartition(partition);
                store.markInitialized(partition);
                ArrayNode segments = answer.putArray("segments");
                Iterator<?> found = (Iterator<?>) list.invoke(store, partition);
                while (found.hasNext()) {
                    RemoteLogSegmentMetadata segment = (RemoteLogSegmentMetadata) found.next();
                    segments.addObject()
                        .put("id", segment.remoteLogSegmentId().id().toString())
                        .put("state", segment.state().name())
                        .put("in_lineage", (boolean) isWithin.invoke(null, segment, end, lineage));
                }
            } catch (InvocationTargetException problem) {
                throw new IllegalStateException(problem.getCause());
            } catch (RuntimeException problem) {
                answer.set("error", Json.error(problem));
            }
        }
        return answers;
    }
}
