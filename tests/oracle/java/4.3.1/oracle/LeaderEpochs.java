package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;

/**
 * `leader_epochs`: drives a LeaderEpochFileCache by a list of operations.
 *
 * <p>{runs: [{path, bytes, epochs, offsets, operations}]}: after each operation all entries, the file's bytes, and
 * what the cache answers for each of `epochs` and `offsets`.
 */
final class LeaderEpochs {
    private final File file;
    private final LeaderEpochFileCache cache;

    private LeaderEpochs(JsonNode run) throws IOException {
        File directory = new File(Json.text(run, "path"));
        directory.mkdirs();
        file = LeaderEpochCheckpointFile.newFile(directory);
        if (Json.has(run, "bytes"))
            Files.write(file.toPath(), Json.bytes(run, "bytes"));
        cache = new LeaderEpochFileCache(
            new TopicPartition("orders", 0),
            new LeaderEpochCheckpointFile(file, new LogDirFailureChannel(10)),
            new StillScheduler());
    }

    static JsonNode run(JsonNode arguments) throws Exception {
        ArrayNode answers = Json.array();
        for (JsonNode run : arguments.get("runs"))
            answers.add(attempt(run));
        return answers;
    }

    private static JsonNode attempt(JsonNode run) throws Exception {
        LeaderEpochs epochs;
        try {
            epochs = new LeaderEpochs(run);
        } catch (RuntimeException problem) {
            return Json.object().set("error", Json.error(problem));
        }
        ArrayNode told = Json.array();
        told.add(epochs.state(run));
        for (JsonNode operation : run.get("operations")) {
            ObjectNode error = null;
            try {
                epochs.operate(operation);
            } catch (RuntimeException problem) {
                error = Json.error(problem);
            }
            ObjectNode state = epochs.state(run);
            if (error != null)
                state.set("error", error);
            told.add(state);
        }
        return told;
    }

    private void operate(JsonNode operation) {
        long offset = Json.number(operation, "offset", 0);
        switch (Json.text(operation, "do")) {
            case "assign":
                cache.assign(Json.integer(operation, "epoch", 0), offset);
                break;
            case "assign_all":
                List<EpochEntry> entries = new ArrayList<>();
                for (JsonNode entry : operation.get("entries"))
                    entries.add(new EpochEntry(entry.get(0).intValue(), entry.get(1).longValue()));
                cache.assign(entries);
                break;
            case "truncate_from_end":
                cache.truncateFromEndAsyncFlush(offset);
                break;
            case "truncate_from_start":
                cache.truncateFromStartAsyncFlush(offset);
                break;
            case "clear_and_flush":
                cache.clearAndFlush();
                break;
            case "clear":
                cache.clear();
                break;
            default:
                throw new IllegalStateException("unknown operation " + operation);
        }
    }

    private ObjectNode state(JsonNode run) throws IOException {
        ObjectNode node = Json.object();
        entries(node.putArray("entries"), cache.epochEntries());
        node.set("bytes", Json.base64(Files.readAllBytes(file.toPath())));
        node.put("non_empty", cache.nonEmpty());
        node.put("latest_epoch", cache.latestEpoch().orElse(null));
        node.put("before_latest", boxed(cache.previousEpoch()));
        node.put("earliest_offset", cache.earliestEntry().map(EpochEntry::startOffset).orElse(null));
        ArrayNode epochs = node.putArray("epochs");
        for (JsonNode each : run.get("epochs"))
            epochs.add(ofEpoch(each.intValue()));
        ArrayNode offsets = node.putArray("offsets");
        for (JsonNode each : run.get("offsets")) {
            long offset = each.longValue();
            ArrayNode told = offsets.addArray().add(boxed(cache.epochForOffset(offset)));
            entries(told.addArray(), cache.epochEntriesInRange(offset, offset + 10));
            entries(told.addArray(), cache.epochEntriesInRange(-1, offset));
        }
        return node;
    }

    private ArrayNode ofEpoch(int epoch) {
        Map.Entry<Integer, Long> end = cache.endOffsetFor(epoch, 1000);
        Optional<EpochEntry> previous = cache.previousEntry(epoch);
        return Json.array()
            .add(end.getKey())
            .add(end.getValue())
            .add(boxed(cache.previousEpoch(epoch)))
            .add(previous.map(EpochEntry::startOffset).orElse(null))
            .add(boxed(cache.nextEpoch(epoch)))
            .add(cache.epochEntry(epoch).map(EpochEntry::startOffset).orElse(null));
    }

    private static Integer boxed(OptionalInt value) {
        return value.isPresent() ? value.getAsInt() : null;
    }

    private static void entries(ArrayNode told, List<EpochEntry> entries) {
        for (EpochEntry entry : entries)
            told.addArray().add(entry.epoch()).add(entry.startOffset());
    }
}
