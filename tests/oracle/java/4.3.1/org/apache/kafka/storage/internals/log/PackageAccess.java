package org.apache.kafka.storage.internals.log;

import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.FileRecords.LogOffsetPosition;
import org.apache.kafka.common.record.internal.RecordBatch;

/** In Kafka's package for the few parts that Kafka keeps to it. */
public final class PackageAccess {
    private PackageAccess() { }

    public static void addBatch(
        ProducerStateEntry entry, short epoch, int lastSequence, long lastOffset, int offsetDelta, long timestamp
    ) {
        entry.addBatch(epoch, lastSequence, lastOffset, offsetDelta, timestamp);
    }

    public static int lastSequence(ProducerStateEntry entry) {
        return entry.lastSeq();
    }

    public static int lastOffsetDelta(ProducerStateEntry entry) {
        return entry.lastOffsetDelta();
    }

    public static Optional<BatchMetadata> findDuplicateBatch(ProducerStateEntry entry, RecordBatch batch) {
        return entry.findDuplicateBatch(batch);
    }

    /** A private field, by its name. */
    @SuppressWarnings("unchecked")
    public static <T> T field(Object of, String name) throws ReflectiveOperationException {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return (T) field.get(of);
    }

    public static LogOffsetPosition translateOffset(LogSegment segment, long offset, int position) throws IOException {
        return segment.translateOffset(offset, position);
    }

    public static void closeHandlers(LogSegment segment) {
        segment.closeHandlers();
    }

    /** First dirty offset, first uncleanable offset, and 1 if the checkpoint lies outside of the log. */
    public static long[] cleanableOffsets(UnifiedLog log, Optional<Long> lastCleanOffset, long now)
        throws IOException {
        LogCleanerManager.OffsetsToClean offsets = LogCleanerManager.cleanableOffsets(log, lastCleanOffset, now);
        return new long[] {
            offsets.firstDirtyOffset(), offsets.firstUncleanableDirtyOffset(), offsets.forceUpdateCheckpoint() ? 1 : 0};
    }

    public static long maxCompactionDelay(UnifiedLog log, long firstDirtyOffset, long now)
        throws ReflectiveOperationException {
        Method method = LogCleanerManager.class.getDeclaredMethod(
            "maxCompactionDelay", UnifiedLog.class, long.class, long.class);
        method.setAccessible(true);
        return (long) method.invoke(null, log, firstDirtyOffset, now);
    }

    /** in progress, aborted, or paused(n). */
    public static Optional<String> cleaningState(LogCleanerManager manager, TopicPartition partition) {
        return manager.cleaningState(partition).map(state -> {
            if (state instanceof LogCleaningState.LogCleaningPaused paused)
                return "paused(" + paused.pausedCount() + ")";
            return state == LogCleaningState.LOG_CLEANING_ABORTED ? "aborted" : "in progress";
        });
    }

    public static long mapBytesRead(CleanerStats stats) {
        return stats.mapBytesRead;
    }
}
