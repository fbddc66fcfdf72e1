import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** What only the clients of 4.x have: share groups and subscriptions by pattern. */
public final class GroupsOfFour {
    static final Map<String, KafkaShareConsumer<byte[], byte[]>> SHARE_CONSUMERS = new HashMap<>();

    private GroupsOfFour() {}

    public static void register() {
        Driver.OPERATIONS.put("share_consumer", c -> {
            KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(
                    Driver.properties(c.get("config")),
                    new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(Driver.strings(c.get("topics")));
            SHARE_CONSUMERS.put(c.get("name").asText(), consumer);
            return null;
        });
        Driver.OPERATIONS.put("subscribe_pattern", c -> {
            Driver.CONSUMERS.get(c.get("name").asText())
                    .subscribe(new SubscriptionPattern(c.get("pattern").asText()));
            return null;
        });
        Driver.OPERATIONS.put("alter_share_offset", c -> {
            Driver.admin.alterShareGroupOffsets(c.get("group").asText(),
                    Map.of(Driver.partition(c), c.get("offset").asLong())).all().get();
            return null;
        });
        Driver.OPERATIONS.put("share_poll", c -> sharePoll(
                SHARE_CONSUMERS.get(c.get("name").asText()), c.get("records").asInt(),
                Driver.strings(c.get("acknowledge"))));
        Driver.OPERATIONS.put("close_share_consumer", c -> {
            SHARE_CONSUMERS.remove(c.get("name").asText()).close();
            return null;
        });
        Driver.OPERATIONS.put("delete_share_groups", c -> {
            Driver.admin.deleteShareGroups(Driver.strings(c.get("groups"))).all().get();
            return null;
        });
    }

    /** Takes records until enough came, acknowledging them with the given types in turn. */
    private static Object sharePoll(
            KafkaShareConsumer<byte[], byte[]> consumer, int wanted, List<String> types) {
        long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        int seen = 0;
        while (seen < wanted && System.nanoTime() < deadline) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
            for (ConsumerRecord<byte[], byte[]> record : records) {
                String type = types.get(seen % types.size());
                consumer.acknowledge(record, AcknowledgeType.valueOf(type));
                seen++;
            }
            consumer.commitSync();
        }
        if (seen < wanted) {
            throw new IllegalStateException("saw " + seen + " records of " + wanted + " in 60 s");
        }
        return seen;
    }
}
