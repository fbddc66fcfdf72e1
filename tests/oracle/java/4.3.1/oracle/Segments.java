package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.Optional;
import java.util.zip.CRC32;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.FileRecords.LogOffsetPosition;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.OffsetPosition;
import org.apache.kafka.storage.internals.log.PackageAccess;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.RollParams;
import org.apache.kafka.storage.internals.log.TxnIndexSearchResult;

/**
 * `run_segments`: {runs: [{path, base_offset, config, time, steps}]}: one LogSegment in a directory of its own; for
 * every step its answer (or error) and the directory's files, name -> "size crc32".
 *
 * <p>The step `open` comes first, and after a `close` or `crash`. `write`, `cut` and `delete` change a file of a
 * closed segment behind Kafka's back. `recover` begins with no producers and no epochs, and tells them afterwards.
 */
final class Segments {
    private static final TopicPartition PARTITION = new TopicPartition("segment", 0);

    private final File directory;
    private final long baseOffset;
    private final LogConfig config;
    private final FixedTime time;
    private LogSegment segment;

    private Segments(JsonNode run) {
        directory = new File(Json.text(run, "path")).getAbsoluteFile();
        baseOffset = Json.number(run, "base_offset", 0);
        config = Logs.config(run.path("config"));
        time = new FixedTime(Json.number(run, "time", 0));
    }

    static JsonNode run(JsonNode arguments) throws Exception {
        ArrayNode told = Json.array();
        for (JsonNode run : arguments.path("runs")) {
            Segments segments = new Segments(run);
            ArrayNode steps = told.addArray();
            for (JsonNode step : run.path("steps"))
                steps.add(segments.after(step));
            if (segments.segment != null)
                PackageAccess.closeHandlers(segments.segment);
        }
        return told;
    }

    private ObjectNode after(JsonNode step) throws IOException {
        ObjectNode told = Json.object();
        try {
            if (Json.has(step, "time"))
                time.set(step.get("time").longValue());
            told.set("answer", step(step));
        } catch (Exception | OutOfMemoryError problem) { // a damaged count of records is believed
            told.set("error", Json.error(problem));
        }
        ObjectNode files = told.putObject("files");
        String[] names = directory.list();
        Arrays.sort(names);
        for (String name : names) {
            CRC32 digest = new CRC32();
            byte[] bytes = Files.readAllBytes(new File(directory, name).toPath());
            digest.update(bytes);
            files.put(name, bytes.length + " " + digest.getValue());
        }
        return told;
    }

    private JsonNode step(JsonNode step) throws Exception {
        switch (Json.text(step, "do")) {
            case "open":
                segment = LogSegment.open(directory, baseOffset, config, time, Json.flag(step, "exists", false),
                    Json.integer(step, "init_file_size", 0), Json.flag(step, "preallocate", false), "");
                return NullNode.instance;
            case "append":
                segment.append(number(step, "largest_offset"),
                    MemoryRecords.readableRecords(ByteBuffer.wrap(Json.bytes(step, "bytes"))));
                return Json.array().add(segment.size());
            case "should_roll":
                return Json.array().add(segment.shouldRoll(new RollParams(
                    number(step, "max_segment_ms"), (int) number(step, "max_segment_bytes"),
                    number(step, "max_timestamp"), number(step, "max_offset"), (int) number(step, "messages_size"),
                    time.milliseconds())));
            case "read":
                return tell(segment.read(number(step, "offset"), (int) number(step, "max_size"),
                    Json.has(step, "max_position") ? Optional.of(number(step, "max_position")) : Optional.empty(),
                    Json.flag(step, "min_one_message", false)));
            case "translate":
                LogOffsetPosition found = PackageAccess.translateOffset(
                    segment, number(step, "offset"), Json.integer(step, "starting_file_position", 0));
                return found == null ? NullNode.instance
                    : Json.array().add(found.offset).add(found.position).add(found.size);
            case "find_timestamp":
                return segment.findOffsetByTimestamp(number(step, "timestamp"), number(step, "starting_offset"))
                    .map(Segments::tell).orElse(NullNode.instance);
            case "upper_bound":
                long bound = segment.fetchUpperBoundOffset(
                    new OffsetPosition(0, (int) number(step, "position")), (int) number(step, "size")).orElse(-1);
                return Json.array().add(bound);
            case "state":
                return Json.array().add(segment.size()).add(segment.readNextOffset())
                    .add(segment.maxTimestampSoFar()).add(segment.largestRecordTimestamp().orElse(-1))
                    .add(segment.readMaxTimestampAndOffsetSoFar().offset())
                    .add(segment.getFirstBatchTimestamp())
                    .add(segment.timeWaitedForRoll(time.milliseconds(), time.milliseconds()))
                    .add(segment.hasOverflow());
            case "truncate_to":
                return Json.array().add(segment.truncateTo(number(step, "offset")));
            case "update_txn_index":
                segment.updateTxnIndex(new CompletedTxn(number(step, "producer_id"), number(step, "first_offset"),
                    number(step, "last_offset"), Json.flag(step, "is_aborted", true)),
                    number(step, "last_stable_offset"));
                return NullNode.instance;
            case "collect_aborted":
                TxnIndexSearchResult aborted =
                    segment.collectAbortedTxns(number(step, "fetch_offset"), number(step, "upper_bound_offset"));
                return Json.array().add(Indexes.tell(aborted.abortedTransactions())).add(aborted.isComplete());
            case "sanity_check":
                segment.sanityCheck(Json.flag(step, "time_index_newly_created", false));
                return NullNode.instance;
            case "resize_indexes":
                segment.resizeIndexes((int) number(step, "size"));
                return NullNode.instance;
            case "become_inactive":
                segment.onBecomeInactiveSegment();
                return NullNode.instance;
            case "flush":
                segment.flush();
                return NullNode.instance;
            case "change_suffixes":
                segment.changeFileSuffixes(Json.text(step, "old"), Json.text(step, "new"));
                return NullNode.instance;
            case "delete":
                segment.deleteIfExists();
                return NullNode.instance;
            case "recover":
                return recover();
            case "append_from_file":
                return appendFromFile(step);
            case "close":
                segment.close();
                return NullNode.instance;
            case "crash":
                PackageAccess.closeHandlers(segment);
                return NullNode.instance;
            case "write_file":
                write(step);
                return NullNode.instance;
            default:
                throw new IllegalStateException("unknown step " + step);
        }
    }

    private JsonNode recover() throws Exception {
        ProducerStateManager producers = new ProducerStateManager(
            PARTITION, directory, 15 * 60 * 1000, new ProducerStateManagerConfig(Integer.MAX_VALUE, false), time);
        File checkpoint = new File(directory, "leader-epoch-checkpoint");
        Files.deleteIfExists(checkpoint.toPath());
        LeaderEpochFileCache epochs = new LeaderEpochFileCache(
            PARTITION, new LeaderEpochCheckpointFile(checkpoint, new LogDirFailureChannel(10)), new StillScheduler());
        int truncated = segment.recover(producers, epochs);
        ArrayNode producerIds = Json.array();
        producers.activeProducers().keySet().stream().sorted().forEach(producerIds::add);
        return Json.array().add(truncated).add(producers.mapEndOffset()).add(producerIds);
    }

    private JsonNode appendFromFile(JsonNode step) throws IOException {
        try (FileRecords source = FileRecords.open(new File(Json.text(step, "from")), false)) {
            return Json.array().add(segment.appendFromFile(source, (int) number(step, "start")));
        }
    }

    /** {name, position, bytes, size}: bytes are put there, then the file is cut or extended. */
    private void write(JsonNode step) throws IOException {
        File file = new File(directory, Json.text(step, "name"));
        if (Json.flag(step, "gone", false)) {
            Files.deleteIfExists(file.toPath());
            return;
        }
        try (RandomAccessFile raf = new RandomAccessFile(file, "rw")) {
            if (Json.has(step, "bytes")) {
                raf.seek(number(step, "position"));
                raf.write(Json.bytes(step, "bytes"));
            }
            if (Json.has(step, "size"))
                raf.setLength(number(step, "size"));
        }
    }

    private static JsonNode tell(FetchDataInfo found) throws IOException {
        if (found == null)
            return NullNode.instance;
        Records records = found.records;
        CRC32 digest = new CRC32();
        if (records instanceof FileRecords && records.sizeInBytes() > 0) {
            ByteBuffer bytes = ByteBuffer.allocate(records.sizeInBytes());
            ((FileRecords) records).readInto(bytes, 0);
            digest.update(bytes);
        }
        return Json.array().add(found.fetchOffsetMetadata.messageOffset)
            .add(found.fetchOffsetMetadata.segmentBaseOffset)
            .add(found.fetchOffsetMetadata.relativePositionInSegment)
            .add(records.sizeInBytes()).add(digest.getValue()).add(found.firstEntryIncomplete);
    }

    private static JsonNode tell(FileRecords.TimestampAndOffset found) {
        return Json.array().add(found.timestamp).add(found.offset).add(found.leaderEpoch.orElse(-1));
    }

    private static long number(JsonNode step, String name) {
        return Json.required(step, name).longValue();
    }
}
