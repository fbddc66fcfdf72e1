package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.ProduceResponse.RecordError;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.server.record.BrokerCompressionType;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.RecordValidationException;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * `validate_appends`: what an append goes through before it is written, for many appends at once.
 *
 * <p>{path, cases: [{bytes, origin, leader_epoch, config, ignore_record_size, require_offsets_monotonic,
 * time, offset, to_magic, produce_version}]}. A log in path lends its private analysis; nothing is appended.
 */
final class Validation {
    private static final BrokerTopicStats METRICS = new BrokerTopicStats();

    private final UnifiedLog log;
    private final Method analyze;

    private Validation(File directory) throws Exception {
        FixedTime time = new FixedTime(0);
        log = UnifiedLog.create(
            directory, new LogConfig(new Properties()), 0, 0, new StillScheduler(), METRICS, time, 900_000,
            new ProducerStateManagerConfig(Integer.MAX_VALUE, false), Integer.MAX_VALUE,
            new LogDirFailureChannel(10), true, Optional.empty());
        analyze = UnifiedLog.class.getDeclaredMethod(
            "analyzeAndValidateRecords",
            MemoryRecords.class, AppendOrigin.class, boolean.class, boolean.class, int.class);
        analyze.setAccessible(true);
    }

    static JsonNode run(JsonNode arguments) throws Exception {
        Validation validation = new Validation(new File(Json.text(arguments, "path")).getAbsoluteFile());
        ArrayNode answers = Json.array();
        try {
            for (JsonNode each : arguments.path("cases"))
                answers.add(validation.answer(each));
        } finally {
            validation.log.close();
        }
        return answers;
    }

    /** Analysis, and validation if that succeeds; the check of a produce request beside. */
    private JsonNode answer(JsonNode each) throws Exception {
        ObjectNode answer = Json.object();
        MemoryRecords records = MemoryRecords.readableRecords(Json.buffer(each, "bytes"));
        LogConfig config = Logs.config(each.path("config"));
        log.updateConfig(config);
        answer.set("produce", produce(records, Json.small(each, "produce_version", 12)));
        LogAppendInfo info;
        try {
            info = analyzed(records, each);
        } catch (Throwable problem) {
            answer.putObject("analysis").set("error", error(problem));
            return answer;
        }
        answer.set("analysis", describe(info));
        if (info.validBytes() <= 0)
            return answer;
        byte[] valid = Arrays.copyOf(Json.bytes(each, "bytes"), info.validBytes());
        MemoryRecords trimmed = MemoryRecords.readableRecords(ByteBuffer.wrap(valid));
        answer.set("validation", validated(trimmed, info, config, each));
        return answer;
    }

    private static JsonNode produce(MemoryRecords records, short version) {
        ObjectNode answer = Json.object();
        try {
            ProduceRequest.validateRecords(version, records);
        } catch (Throwable problem) {
            answer.set("error", error(problem));
        }
        return answer;
    }

    private LogAppendInfo analyzed(MemoryRecords records, JsonNode each) throws Throwable {
        try {
            return (LogAppendInfo) analyze.invoke(
                log, records, origin(each),
                Json.flag(each, "ignore_record_size", false),
                Json.flag(each, "require_offsets_monotonic", false),
                Json.integer(each, "leader_epoch", 0));
        } catch (InvocationTargetException problem) {
            throw problem.getCause();
        }
    }

    private static AppendOrigin origin(JsonNode each) {
        return AppendOrigin.valueOf(Json.text(each, "origin", "CLIENT"));
    }

    private static JsonNode validated(MemoryRecords records, LogAppendInfo info, LogConfig config, JsonNode each) {
        ObjectNode answer = Json.object();
        Compression target = BrokerCompressionType.targetCompression(config.compression, info.sourceCompression());
        LogValidator validator = new LogValidator(
            records, new TopicPartition("orders", 0), new FixedTime(Json.number(each, "time", 0)),
            info.sourceCompression(), target, config.compact, (byte) Json.integer(each, "to_magic", 2),
            config.messageTimestampType, config.messageTimestampBeforeMaxMs, config.messageTimestampAfterMaxMs,
            Json.integer(each, "leader_epoch", 0), origin(each));
        PrimitiveRef.LongRef offset = PrimitiveRef.ofLong(Json.number(each, "offset", 0));
        try {
            LogValidator.ValidationResult result = validator.validateMessagesAndAssignOffsets(
                offset, new NoMetrics(), BufferSupplier.NO_CACHING);
            answer.set("bytes", Json.base64(result.validatedRecords().buffer()));
            answer.put("next_offset", offset.value);
            answer.put("log_append_time_ms", result.logAppendTimeMs());
            answer.put("max_timestamp_ms", result.maxTimestampMs());
            answer.put("message_size_maybe_changed", result.messageSizeMaybeChanged());
            answer.put("temporary_memory_bytes", result.recordValidationStats().temporaryMemoryBytes());
            answer.put("num_records_converted", result.recordValidationStats().numRecordsConverted());
        } catch (Throwable problem) {
            answer.set("error", error(problem));
        }
        return answer;
    }

    private static ObjectNode describe(LogAppendInfo info) {
        return Json.object()
            .put("first_offset", info.firstOffset())
            .put("last_offset", info.lastOffset())
            .put("last_leader_epoch", info.lastLeaderEpoch().orElse(null))
            .put("max_timestamp", info.maxTimestamp())
            .put("log_append_time", info.logAppendTime())
            .put("log_start_offset", info.logStartOffset())
            .put("source_compression", info.sourceCompression().name)
            .put("valid_bytes", info.validBytes())
            .put("first_or_last_offset_of_first_batch", info.firstOrLastOffsetOfFirstBatch());
    }

    /** The exception, or what a RecordValidationException holds: its reason and the records. */
    private static ObjectNode error(Throwable problem) {
        ObjectNode node = Json.error(problem);
        if (problem instanceof RecordValidationException) {
            RecordValidationException refused = (RecordValidationException) problem;
            node = Json.error(refused.invalidException());
            ArrayNode errors = node.putArray("record_errors");
            for (RecordError error : refused.recordErrors())
                errors.addObject().put("batch_index", error.batchIndex).put("message", error.message);
        }
        return node;
    }

    private static final class NoMetrics implements LogValidator.MetricsRecorder {
        @Override
        public void recordInvalidMagic() { }

        @Override
        public void recordInvalidOffset() { }

        @Override
        public void recordInvalidSequence() { }

        @Override
        public void recordInvalidChecksums() { }

        @Override
        public void recordNoKeyCompactedTopic() { }
    }
}
