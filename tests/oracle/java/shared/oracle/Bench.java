package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.nio.ByteBuffer;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;

/** `build_segment` and `bench_records`: one large file, and a loop over it as a Java program would. */
final class Bench {
    private Bench() { }

    /**
     * {path, records, records_per_batch, key_size, value_size, codec, seed, base_offset, keys}: values are half-random
     * text, and so are keys, unless there are to be so many `keys`, of 16 bytes.
     */
    static JsonNode buildSegment(JsonNode arguments) throws Exception {
        Random random = new Random(Json.number(arguments, "seed", 0));
        int total = Json.integer(arguments, "records", 1000);
        int perBatch = Json.integer(arguments, "records_per_batch", 100);
        int keys = Json.integer(arguments, "keys", 0);
        byte[] key = new byte[keys > 0 ? 16 : Json.integer(arguments, "key_size", 12)];
        byte[] value = new byte[Json.integer(arguments, "value_size", 100)];
        Compression compression = Batches.compression(arguments);
        ByteBuffer buffer = ByteBuffer.allocate(Math.max(1 << 16, 2 * perBatch * (key.length + value.length + 32)));
        File file = new File(Json.text(arguments, "path"));
        long base = Json.number(arguments, "base_offset", 0);
        long timestamp = 1_700_000_000_000L + base;
        try (FileRecords records = FileRecords.open(file, true)) {
            for (int done = 0; done < total; done += perBatch) {
                buffer.clear();
                MemoryRecordsBuilder builder =
                    MemoryRecords.builder(buffer, compression, TimestampType.CREATE_TIME, base + done);
                for (int i = done; i < Math.min(total, done + perBatch); i++) {
                    if (keys > 0)
                        name(random.nextInt(keys), key);
                    else
                        fill(random, key, 10);
                    fill(random, value, 16);
                    builder.append(timestamp++, key, value);
                }
                records.append(builder.build());
            }
            records.flush();
            return Json.object().put("size_in_bytes", records.sizeInBytes());
        }
    }

    /** Sixteen hexadecimal digits, another sixteen for each number. */
    private static void name(int number, byte[] key) {
        long scattered = number * 0x9E3779B97F4A7C15L;
        for (int i = 0; i < 16; i++)
            key[i] = (byte) "0123456789abcdef".charAt((int) (scattered >>> (4 * i)) & 15);
    }

    /** Letters, every second eight of them a repetition, so that lz4 saves about a third. */
    private static void fill(Random random, byte[] bytes, int alphabet) {
        for (int i = 0; i < bytes.length; i++)
            bytes[i] = (i & 8) != 0 ? bytes[i - 8] : (byte) ('a' + random.nextInt(alphabet));
    }

    /** {path, rounds, mode}: mode records (checksum, then every record touched), skip (no checksum), headers. */
    static JsonNode run(JsonNode arguments) throws Exception {
        File file = new File(Json.text(arguments, "path"));
        String mode = Json.text(arguments, "mode", "records");
        ObjectNode answer = Json.object();
        ArrayNode seconds = answer.putArray("seconds");
        long[] seen = new long[3];
        for (int round = Json.integer(arguments, "rounds", 3); round > 0; round--) {
            long start = System.nanoTime();
            seen = mode.equals("headers") ? headers(file) : records(file, mode.equals("records"));
            seconds.add((System.nanoTime() - start) / 1e9);
        }
        return answer
            .put("batches", seen[0])
            .put("records", seen[1])
            .put("touched", seen[2]) // so that no compiler drops the loop
            .put("size_in_bytes", file.length());
    }

    private static long[] records(File file, boolean verify) throws Exception {
        long batches = 0;
        long records = 0;
        long touched = 0;
        BufferSupplier buffers = BufferSupplier.create();
        try (FileRecords source = FileRecords.open(file, false)) {
            for (RecordBatch batch : source.batches()) {
                batches++;
                if (verify)
                    batch.ensureValid();
                try (CloseableIterator<Record> iterator = batch.streamingIterator(buffers)) {
                    while (iterator.hasNext()) {
                        Record record = iterator.next();
                        records++;
                        touched += record.offset() + record.timestamp() + record.headers().length;
                        touched += touch(record.key()) + touch(record.value());
                    }
                }
            }
        } finally {
            buffers.close();
        }
        return new long[] {batches, records, touched};
    }

    private static long touch(ByteBuffer bytes) {
        if (bytes == null)
            return -1;
        int size = bytes.remaining();
        return size == 0 ? 0 : size + bytes.get(bytes.position()) + bytes.get(bytes.limit() - 1);
    }

    private static long[] headers(File file) throws Exception {
        long batches = 0;
        long records = 0;
        long touched = 0;
        try (FileRecords source = FileRecords.open(file, false)) {
            for (RecordBatch batch : source.batches()) {
                batches++;
                Integer count = batch.countOrNull();
                records += count == null ? 0 : count;
                touched += batch.baseOffset() + batch.lastOffset() + batch.maxTimestamp()
                    + batch.producerId() + batch.sizeInBytes();
            }
        }
        return new long[] {batches, records, touched};
    }
}
