import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Apache Kafka's Java clients behind a pipe: one JSON command a line in, one JSON answer a line out.
 * The scenarios live in Python; here is only what needs the Java clients. Bytes travel as base64, so
 * that null and empty stay apart.
 */
public final class Driver {
    interface Operation {
        Object run(JsonNode command) throws Exception;
    }

    static final ObjectMapper JSON = new ObjectMapper();
    static final Map<String, Operation> OPERATIONS = new HashMap<>();
    static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new HashMap<>();
    static final Map<String, KafkaConsumer<byte[], byte[]>> CONSUMERS = new LinkedHashMap<>();
    static String bootstrap;
    static Admin admin;

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        bootstrap = args[0];
        admin = Admin.create(properties(null));
        registerProducers();
        registerConsumers();
        registerAdmin();
        registerSecurity();
        OPERATIONS.put("read_all", Driver::readAll);
        OPERATIONS.put("end_offsets", Driver::endOffsets);
        for (String extension : List.of("GroupsOfFour", "StreamsGroup")) {
            try {
                Class.forName(extension).getMethod("register").invoke(null);
            } catch (ClassNotFoundException absent) {
                // not compiled: an older release, or nobody asked for Kafka Streams
            }
        }
        BufferedReader commands =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = commands.readLine()) != null; ) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                JsonNode command = JSON.readTree(line);
                Object value = OPERATIONS.get(command.get("op").asText()).run(command);
                answer.set("value", JSON.valueToTree(value));
            } catch (Throwable problem) {
                problem.printStackTrace();
                answer.put("error", problem.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
        Runtime.getRuntime().halt(0); // whatever is still open stays open: no goodbyes to the broker
    }

    static Properties properties(JsonNode config) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        if (config != null) {
            config.fields().forEachRemaining(e -> properties.put(e.getKey(), e.getValue().asText()));
        }
        return properties;
    }

    static byte[] bytes(JsonNode text) {
        return text == null || text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    static String base64(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    static TopicPartition partition(JsonNode node) {
        return new TopicPartition(node.get("topic").asText(), node.get("partition").asInt());
    }

    static List<String> strings(JsonNode array) {
        List<String> strings = new ArrayList<>();
        array.forEach(each -> strings.add(each.asText()));
        return strings;
    }

    static Map<String, String> stringMap(JsonNode object) {
        Map<String, String> map = new LinkedHashMap<>();
        if (object != null) {
            object.fields().forEachRemaining(e -> map.put(e.getKey(), e.getValue().asText()));
        }
        return map;
    }

    static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode array) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new LinkedHashMap<>();
        for (JsonNode each : array) {
            String metadata = each.hasNonNull("metadata") ? each.get("metadata").asText() : "";
            offsets.put(partition(each), new OffsetAndMetadata(each.get("offset").asLong(), metadata));
        }
        return offsets;
    }

    private static void registerProducers() {
        OPERATIONS.put("producer", c -> {
            PRODUCERS.put(c.get("name").asText(), new KafkaProducer<>(properties(c.get("config")),
                    new ByteArraySerializer(), new ByteArraySerializer()));
            if (c.get("config").has("transactional.id")) {
                PRODUCERS.get(c.get("name").asText()).initTransactions();
            }
            return null;
        });
        OPERATIONS.put("send", Driver::send);
        OPERATIONS.put("begin", c -> {
            producer(c).beginTransaction();
            return null;
        });
        OPERATIONS.put("commit_transaction", c -> {
            producer(c).commitTransaction();
            return null;
        });
        OPERATIONS.put("abort_transaction", c -> {
            producer(c).abortTransaction();
            return null;
        });
        OPERATIONS.put("send_offsets", c -> {
            producer(c).sendOffsetsToTransaction(
                    offsets(c.get("offsets")), new ConsumerGroupMetadata(c.get("group").asText()));
            return null;
        });
        OPERATIONS.put("close_producer", c -> {
            PRODUCERS.remove(c.get("name").asText()).close(Duration.ofSeconds(20));
            return null;
        });
    }

    private static KafkaProducer<byte[], byte[]> producer(JsonNode command) {
        return PRODUCERS.get(command.get("name").asText());
    }

    /** Sends all, flushes once (so that linger makes one batch a partition), answers the offsets. */
    private static Object send(JsonNode command) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode each : command.get("records")) {
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                    each.get("topic").asText(),
                    each.get("partition").asInt(),
                    each.hasNonNull("timestamp") ? each.get("timestamp").asLong() : null,
                    bytes(each.get("key")),
                    bytes(each.get("value")));
            if (each.has("headers")) {
                for (JsonNode header : each.get("headers")) {
                    record.headers().add(header.get(0).asText(), bytes(header.get(1)));
                }
            }
            sent.add(producer(command).send(record));
        }
        producer(command).flush();
        List<Long> offsets = new ArrayList<>();
        for (Future<RecordMetadata> each : sent) {
            offsets.add(each.get().offset());
        }
        return offsets;
    }

    private static void registerConsumers() {
        OPERATIONS.put("consumer", c -> {
            KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties(c.get("config")),
                    new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(strings(c.get("topics")));
            CONSUMERS.put(c.get("name").asText(), consumer);
            return null;
        });
        OPERATIONS.put("poll", Driver::poll);
        OPERATIONS.put("commit", c -> {
            CONSUMERS.get(c.get("name").asText()).commitSync(offsets(c.get("offsets")));
            return null;
        });
        OPERATIONS.put("close_consumer", c -> {
            CONSUMERS.remove(c.get("name").asText()).close();
            return null;
        });
    }

    /** Polls the named consumers in turn until all have an assignment and together saw enough. */
    private static Object poll(JsonNode command) {
        long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        List<String> names = strings(command.get("names"));
        int wanted = command.get("records").asInt();
        int seen = 0;
        while (System.nanoTime() < deadline) {
            boolean assigned = true;
            for (String name : names) {
                seen += CONSUMERS.get(name).poll(Duration.ofMillis(200)).count();
                assigned &= !CONSUMERS.get(name).assignment().isEmpty();
            }
            if (assigned && seen >= wanted) {
                Map<String, Object> assignments = new TreeMap<>();
                for (String name : names) {
                    assignments.put(name, CONSUMERS.get(name).assignment().stream()
                            .map(TopicPartition::toString).sorted().toList());
                }
                return assignments;
            }
        }
        throw new IllegalStateException("saw " + seen + " records of " + wanted + " in 60 s");
    }

    private static void registerAdmin() {
        OPERATIONS.put("create_topics", c -> {
            List<NewTopic> topics = new ArrayList<>();
            for (JsonNode each : c.get("topics")) {
                topics.add(new NewTopic(each.get("name").asText(), each.get("partitions").asInt(),
                        (short) each.path("replication").asInt(1)).configs(stringMap(each.get("config"))));
            }
            admin.createTopics(topics).all().get();
            return null;
        });
        OPERATIONS.put("add_partitions", c -> {
            admin.createPartitions(Map.of(c.get("topic").asText(),
                    NewPartitions.increaseTo(c.get("count").asInt()))).all().get();
            return null;
        });
        OPERATIONS.put("delete_topics", c -> {
            admin.deleteTopics(strings(c.get("topics"))).all().get();
            return null;
        });
        OPERATIONS.put("alter_config", Driver::alterConfig);
        OPERATIONS.put("delete_records", c -> {
            admin.deleteRecords(Map.of(partition(c),
                    RecordsToDelete.beforeOffset(c.get("before").asLong()))).all().get();
            return null;
        });
        OPERATIONS.put("move_replica", c -> {
            TopicPartition moved = partition(c);
            admin.alterReplicaLogDirs(Map.of(
                    new TopicPartitionReplica(moved.topic(), moved.partition(), c.get("broker").asInt()),
                    c.get("log_dir").asText())).all().get();
            return null;
        });
        OPERATIONS.put("alter_group_offsets", c -> {
            admin.alterConsumerGroupOffsets(c.get("group").asText(), offsets(c.get("offsets")))
                    .all().get();
            return null;
        });
        OPERATIONS.put("update_feature", c -> {
            admin.updateFeatures(
                    Map.of(c.get("feature").asText(), new FeatureUpdate(
                            (short) c.get("level").asInt(), FeatureUpdate.UpgradeType.UPGRADE)),
                    new UpdateFeaturesOptions()).all().get();
            return null;
        });
        OPERATIONS.put("delete_groups", c -> {
            admin.deleteConsumerGroups(strings(c.get("groups"))).all().get();
            return null;
        });
    }

    private static Object alterConfig(JsonNode command) throws Exception {
        ConfigResource resource = new ConfigResource(
                ConfigResource.Type.valueOf(command.get("type").asText()), command.get("name").asText());
        Collection<AlterConfigOp> changes = new ArrayList<>();
        stringMap(command.get("set")).forEach((name, value) -> changes.add(
                new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
        if (command.has("delete")) {
            strings(command.get("delete")).forEach(name -> changes.add(
                    new AlterConfigOp(new ConfigEntry(name, ""), AlterConfigOp.OpType.DELETE)));
        }
        admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
        return null;
    }

    private static void registerSecurity() {
        OPERATIONS.put("scram_user", c -> {
            admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(
                    c.get("user").asText(),
                    new ScramCredentialInfo(ScramMechanism.fromMechanismName(
                            c.get("mechanism").asText()), 4096),
                    c.get("password").asText()))).all().get();
            return null;
        });
        OPERATIONS.put("remove_scram_user", c -> {
            admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion(
                    c.get("user").asText(),
                    ScramMechanism.fromMechanismName(c.get("mechanism").asText())))).all().get();
            return null;
        });
        OPERATIONS.put("acl", c -> {
            admin.createAcls(List.of(new AclBinding(
                    new ResourcePattern(ResourceType.valueOf(c.get("resource_type").asText()),
                            c.get("resource").asText(), PatternType.valueOf(c.get("pattern").asText())),
                    new AccessControlEntry(c.get("principal").asText(), c.get("host").asText(),
                            AclOperation.valueOf(c.get("operation").asText()),
                            AclPermissionType.valueOf(c.get("permission").asText()))))).all().get();
            return null;
        });
        OPERATIONS.put("remove_acls_of", c -> {
            admin.deleteAcls(List.of(new AclBindingFilter(
                    ResourcePatternFilter.ANY,
                    new AccessControlEntryFilter(
                            c.get("principal").asText(), null, AclOperation.ANY,
                            AclPermissionType.ANY)))).all().get();
            return null;
        });
        OPERATIONS.put("quota", c -> {
            Map<String, String> entity = new HashMap<>(); // a null name is the default entity
            c.get("entity").fields().forEachRemaining(e ->
                    entity.put(e.getKey(), e.getValue().isNull() ? null : e.getValue().asText()));
            admin.alterClientQuotas(List.of(new ClientQuotaAlteration(new ClientQuotaEntity(entity),
                    List.of(new ClientQuotaAlteration.Op(c.get("key").asText(),
                            c.get("value").isNull() ? null : c.get("value").asDouble()))))).all().get();
            return null;
        });
    }

    private static Object endOffsets(JsonNode command) throws Exception {
        Map<String, Long> ends = new TreeMap<>();
        try (KafkaConsumer<byte[], byte[]> consumer = reader("read_uncommitted")) {
            consumer.endOffsets(partitions(consumer, command))
                    .forEach((partition, end) -> ends.put(partition.toString(), end));
        }
        return ends;
    }

    private static KafkaConsumer<byte[], byte[]> reader(String isolation) {
        Properties properties = properties(null);
        properties.put("isolation.level", isolation);
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("max.poll.records", "10000");
        return new KafkaConsumer<>(
                properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static List<TopicPartition> partitions(
            KafkaConsumer<byte[], byte[]> consumer, JsonNode command) {
        List<TopicPartition> partitions = new ArrayList<>();
        consumer.listTopics().values().forEach(each -> each.forEach(
                info -> partitions.add(new TopicPartition(info.topic(), info.partition()))));
        partitions.sort(Comparator.comparing(TopicPartition::topic)
                .thenComparing(TopicPartition::partition));
        return partitions;
    }

    /** Writes down what a consumer receives: everything, once for each isolation level given. */
    private static Object readAll(JsonNode command) throws Exception {
        int written = 0;
        try (Writer out = Files.newBufferedWriter(Path.of(command.get("path").asText()))) {
            for (String isolation : strings(command.get("isolations"))) {
                try (KafkaConsumer<byte[], byte[]> consumer = reader(isolation)) {
                    for (TopicPartition each : partitions(consumer, command)) {
                        written += readPartition(consumer, isolation, each, out);
                    }
                }
            }
        }
        return written;
    }

    private static int readPartition(KafkaConsumer<byte[], byte[]> consumer, String isolation,
            TopicPartition partition, Writer out) throws Exception {
        consumer.assign(List.of(partition));
        consumer.seekToBeginning(List.of(partition));
        ObjectNode range = JSON.createObjectNode();
        range.put("isolation", isolation);
        range.put("topic", partition.topic());
        range.put("partition", partition.partition());
        long end = consumer.endOffsets(List.of(partition)).get(partition);
        range.put("beginning_offset", consumer.beginningOffsets(List.of(partition)).get(partition));
        range.put("end_offset", end);
        out.write(JSON.writeValueAsString(range) + "\n");
        long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        int written = 0;
        while (consumer.position(partition) < end) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                if (record.offset() < end) {
                    out.write(JSON.writeValueAsString(described(isolation, record)) + "\n");
                    written++;
                }
            }
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException(
                        partition + " " + isolation + ": at " + consumer.position(partition)
                                + " of " + end + " after 30 s");
            }
        }
        return written;
    }

    private static ObjectNode described(String isolation, ConsumerRecord<byte[], byte[]> record) {
        ObjectNode row = JSON.createObjectNode();
        row.put("isolation", isolation);
        row.put("topic", record.topic());
        row.put("partition", record.partition());
        row.put("offset", record.offset());
        row.put("timestamp", record.timestamp());
        row.put("timestamp_type", record.timestampType().name);
        row.put("leader_epoch", record.leaderEpoch().orElse(null));
        row.put("key", base64(record.key()));
        row.put("value", base64(record.value()));
        ArrayNode headers = row.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(base64(header.value()));
        }
        return row;
    }
}
