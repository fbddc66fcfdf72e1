package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Optional;
import java.util.zip.CRC32;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.OffsetResultHolder;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/** What a log answers to its readers, as `run_log` tells it. */
final class LogAnswers {
    private static final int LOG_OVERHEAD = 12;
    private static final int SIZE_POSITION = 8;

    private LogAnswers() { }

    /** {max_length, isolation, min_one_message} from an offset on. */
    static JsonNode read(UnifiedLog log, long offset, JsonNode step) throws IOException {
        FetchDataInfo found = log.read(
            offset,
            Json.integer(step, "max_length", Integer.MAX_VALUE),
            FetchIsolation.valueOf(Json.text(step, "isolation", "LOG_END")),
            Json.flag(step, "min_one_message", true));
        byte[] bytes = bytes(found.records);
        CRC32 digest = new CRC32();
        digest.update(bytes);
        ObjectNode node = Json.object()
            .put("offset", found.fetchOffsetMetadata.messageOffset)
            .put("segment_base_offset", found.fetchOffsetMetadata.segmentBaseOffset)
            .put("position", found.fetchOffsetMetadata.relativePositionInSegment)
            .put("size_in_bytes", bytes.length)
            .put("digest", digest.getValue())
            .put("first_entry_incomplete", found.firstEntryIncomplete);
        node.set("aborted_transactions", NullNode.instance);
        if (found.abortedTransactions.isPresent()) {
            ArrayNode aborted = node.putArray("aborted_transactions");
            for (FetchResponseData.AbortedTransaction txn : found.abortedTransactions.get())
                aborted.addArray().add(txn.producerId()).add(txn.firstOffset());
        }
        return node;
    }

    private static byte[] bytes(Records records) throws IOException {
        ByteBuffer buffer;
        if (records instanceof FileRecords) {
            buffer = ByteBuffer.allocate(records.sizeInBytes());
            ((FileRecords) records).readInto(buffer, 0);
        } else {
            buffer = ((MemoryRecords) records).buffer();
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    /** {timestamp}: epoch milliseconds, or one of the protocol's negative names. */
    static JsonNode offsetForTimestamp(UnifiedLog log, JsonNode step) {
        OffsetResultHolder found =
            log.fetchOffsetByTimestamp(step.get("timestamp").longValue(), Optional.empty());
        if (found.timestampAndOffsetOpt().isEmpty())
            return NullNode.instance;
        FileRecords.TimestampAndOffset answer = found.timestampAndOffsetOpt().get();
        return Json.object()
            .put("timestamp", answer.timestamp)
            .put("offset", answer.offset)
            .put("leader_epoch", answer.leaderEpoch.orElse(null));
    }

    static JsonNode endOffsetForEpoch(UnifiedLog log, int leaderEpoch) {
        Optional<OffsetAndEpoch> found = log.endOffsetForEpoch(leaderEpoch);
        if (found.isEmpty())
            return NullNode.instance;
        return Json.object().put("offset", found.get().offset()).put("leader_epoch", found.get().epoch());
    }

    /** Moves a chunk of batches so that its first begins at an offset: offsets are outside the checksum. */
    static void shift(ByteBuffer batches, long firstOffset) {
        int position = batches.position();
        long shift = batches.remaining() < LOG_OVERHEAD ? 0 : firstOffset - batches.getLong(position);
        while (position + LOG_OVERHEAD <= batches.limit()) {
            batches.putLong(position, batches.getLong(position) + shift);
            position += LOG_OVERHEAD + batches.getInt(position + SIZE_POSITION);
        }
    }
}
