package org.apache.kafka.storage.internals.log;

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
}
