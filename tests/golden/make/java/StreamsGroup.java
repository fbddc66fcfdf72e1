import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/** A Kafka Streams application of the streams group protocol: counts words, in memory. */
public final class StreamsGroup {
    private static KafkaStreams streams;

    private StreamsGroup() {}

    public static void register() {
        Driver.OPERATIONS.put("streams", c -> {
            Properties properties = Driver.properties(c.get("config"));
            properties.put("default.key.serde", Serdes.ByteArraySerde.class.getName());
            properties.put("default.value.serde", Serdes.ByteArraySerde.class.getName());
            StreamsBuilder builder = new StreamsBuilder();
            builder.<byte[], byte[]>stream(c.get("from").asText())
                    .groupBy((key, value) -> value)
                    .count(Materialized.<byte[], Long>as(Stores.inMemoryKeyValueStore("counts"))
                            .withValueSerde(Serdes.Long()))
                    .toStream()
                    .mapValues(count -> Long.toString(count).getBytes())
                    .to(c.get("to").asText());
            streams = new KafkaStreams(builder.build(properties), properties);
            streams.start();
            long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            while (streams.state() != KafkaStreams.State.RUNNING) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("streams are " + streams.state() + " after 60 s");
                }
                Thread.sleep(100);
            }
            return null;
        });
    }
}
