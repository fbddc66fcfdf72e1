package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.message.ConsumerProtocolAssignment;
import org.apache.kafka.common.message.ConsumerProtocolSubscription;
import org.apache.kafka.common.message.ControlRecordTypeSchema;
import org.apache.kafka.common.message.EndTxnMarker;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.transaction.TransactionCoordinatorRecordSerde;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.raft.generated.QuorumStateData;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.serialization.AbstractApiMessageSerde;
import org.apache.kafka.server.common.serialization.BytesApiMessageSerde;
import org.apache.kafka.server.log.remote.metadata.storage.generated.ProducerSnapshot;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;

/**
 * Kafka's generated messages, bytes to JSON and back, alone and as the records of each topic.
 *
 * <p>A message's set says how its bytes lie in a record: "group", "transaction" and "share" have keys that
 * begin with the record type and values that begin with their version; "metadata" and "remote" have a frame
 * of varints; "embedded" begin with their version; "control" and "file" stand bare.
 */
final class Messages {
    /** One message type: how it is called, and how a new one is made. */
    record Type(String set, String part, short apiKey, Message prototype) {
        String name() {
            return prototype.getClass().getSimpleName();
        }

        Message create() {
            return newInstance(prototype.getClass());
        }
    }

    private static final Map<String, Type> TYPES = new LinkedHashMap<>();
    private static final Map<String, CoordinatorRecordSerde> COORDINATORS = Map.of(
        "group", new GroupCoordinatorRecordSerde(),
        "transaction", new TransactionCoordinatorRecordSerde(),
        "share", new ShareCoordinatorRecordSerde());
    private static final BytesApiMessageSerde REMOTE = new BytesApiMessageSerde() {
        @Override
        public ApiMessage apiMessageFor(short apiKey) {
            return org.apache.kafka.server.log.remote.metadata.storage.generated.MetadataRecordType
                .fromId(apiKey).newMetadataRecord();
        }
    };

    static {
        for (var type : org.apache.kafka.coordinator.group.generated.CoordinatorRecordType.values())
            addCoordinator("group", type.id(), type.newRecordKey(), type.newRecordValue());
        for (var type : org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordType.values())
            addCoordinator("transaction", type.id(), type.newRecordKey(), type.newRecordValue());
        for (var type : org.apache.kafka.coordinator.share.generated.CoordinatorRecordType.values())
            addCoordinator("share", type.id(), type.newRecordKey(), type.newRecordValue());
        for (var type : MetadataRecordType.values())
            add(new Type("metadata", "record", type.id(), type.newMetadataRecord()));
        for (var type : org.apache.kafka.server.log.remote.metadata.storage.generated.MetadataRecordType.values())
            add(new Type("remote", "record", type.id(), type.newMetadataRecord()));
        for (ApiMessage message : List.of(new ConsumerProtocolSubscription(), new ConsumerProtocolAssignment()))
            add(new Type("embedded", "record", message.apiKey(), message));
        for (ApiMessage message : List.of(
                new ControlRecordTypeSchema(), new EndTxnMarker(), new LeaderChangeMessage(),
                new SnapshotHeaderRecord(), new SnapshotFooterRecord(), new KRaftVersionRecord(),
                new VotersRecord()))
            add(new Type("control", "record", message.apiKey(), message));
        for (ApiMessage message : List.of(new ProducerSnapshot(), new QuorumStateData()))
            add(new Type("file", "record", message.apiKey(), message));
    }

    private Messages() { }

    private static void addCoordinator(String set, short apiKey, ApiMessage key, ApiMessage value) {
        add(new Type(set, "key", apiKey, key));
        add(new Type(set, "value", apiKey, value));
    }

    private static void add(Type type) {
        if (TYPES.put(type.name(), type) != null)
            throw new IllegalStateException("two messages are called " + type.name());
    }

    static Collection<Type> types() {
        return TYPES.values();
    }

    /** A registered type, or any request, response or header of the clients by its class name. */
    static Type type(String name) throws ClassNotFoundException {
        Type known = TYPES.get(name);
        if (known != null)
            return known;
        Class<?> found = Class.forName("org.apache.kafka.common.message." + name);
        ApiMessage prototype = (ApiMessage) newInstance(found.asSubclass(Message.class));
        return new Type("protocol", "record", prototype.apiKey(), prototype);
    }

    // ------------------------------------------------------------------- one message, bare

    static JsonNode schemas(JsonNode arguments) {
        ArrayNode list = Json.array();
        for (Type type : types())
            list.addObject()
                .put("set", type.set())
                .put("part", type.part())
                .put("api_key", type.apiKey())
                .put("name", type.name())
                .put("lowest_version", type.prototype().lowestSupportedVersion())
                .put("highest_version", type.prototype().highestSupportedVersion());
        return list;
    }

    /** `decode_message`: {name, version, bytes} to {data, remaining}. */
    static JsonNode decode(JsonNode arguments) throws Exception {
        Message message = type(Json.text(arguments, "name")).create();
        short version = Json.required(arguments, "version").shortValue();
        ByteBuffer buffer = Json.buffer(arguments, "bytes");
        message.read(new ByteBufferAccessor(buffer), version);
        ObjectNode answer = Json.object().put("remaining", buffer.remaining());
        answer.set("data", toJson(message, version));
        answer.set("unknown_tagged_fields", RandomMessages.unknownTaggedFields(message));
        return answer;
    }

    /** `encode_message`: {name, version, data} to {bytes}. */
    static JsonNode encode(JsonNode arguments) throws Exception {
        Type type = type(Json.text(arguments, "name"));
        short version = Json.required(arguments, "version").shortValue();
        Message message = fromJson(type, Json.required(arguments, "data"), version);
        ObjectNode answer = Json.object();
        answer.set("bytes", Json.base64(bare(message, version)));
        return answer;
    }

    static ByteBuffer bare(Message message, short version) {
        return MessageUtil.toByteBufferAccessor(message, version).buffer();
    }

    static JsonNode toJson(Message message, short version) {
        return (JsonNode) converter(message.getClass(), "write", message.getClass(), message, version);
    }

    static Message fromJson(Type type, JsonNode data, short version) {
        Class<?> made = type.prototype().getClass();
        return (Message) converter(made, "read", JsonNode.class, data, version);
    }

    private static Object converter(Class<?> of, String method, Class<?> takes, Object given, short version) {
        try {
            return Class.forName(of.getName() + "JsonConverter")
                .getMethod(method, takes, short.class)
                .invoke(null, given, version);
        } catch (InvocationTargetException thrown) {
            if (thrown.getCause() instanceof RuntimeException problem)
                throw problem;
            throw new IllegalStateException(thrown.getCause());
        } catch (ReflectiveOperationException missing) {
            throw new IllegalStateException(missing);
        }
    }

    private static Message newInstance(Class<? extends Message> made) {
        try {
            return made.getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException problem) {
            throw new IllegalStateException(problem);
        }
    }

    // -------------------------------------------------------------- as the records of topics

    /** A message's bytes as its set lays them in a record; the empty and bare ones as they are. */
    static ByteBuffer stored(Type type, Message message, short version) {
        if (type.part().equals("key"))
            return MessageUtil.toCoordinatorTypePrefixedByteBuffer((ApiMessage) message);
        if (type.part().equals("value") || type.set().equals("embedded"))
            return MessageUtil.toVersionPrefixedByteBuffer(version, message);
        if (type.set().equals("metadata"))
            return framed(new MetadataRecordSerde(), (ApiMessage) message, version);
        if (type.set().equals("remote"))
            return ByteBuffer.wrap(REMOTE.serialize(new ApiMessageAndVersion((ApiMessage) message, version)));
        return bare(message, version);
    }

    static ByteBuffer framed(AbstractApiMessageSerde serde, ApiMessage message, short version) {
        ApiMessageAndVersion both = new ApiMessageAndVersion(message, version);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(serde.recordSize(both, cache));
        serde.write(both, cache, new ByteBufferAccessor(buffer));
        buffer.flip();
        return buffer;
    }

    private static CoordinatorRecordSerde coordinator(JsonNode arguments) {
        CoordinatorRecordSerde serde = COORDINATORS.get(Json.text(arguments, "set"));
        if (serde == null)
            throw new IllegalArgumentException("set is one of " + COORDINATORS.keySet());
        return serde;
    }

    /** `decode_coordinator`: {set, key, value} to {api_key, key, version, value}. */
    static JsonNode decodeCoordinator(JsonNode arguments) throws Exception {
        ByteBuffer keyBytes = Json.buffer(arguments, "key");
        ByteBuffer valueBytes = Json.buffer(arguments, "value");
        CoordinatorRecord record = coordinator(arguments).deserialize(keyBytes, valueBytes);
        ObjectNode answer = Json.object().put("api_key", record.key().apiKey());
        answer.put("key_name", record.key().getClass().getSimpleName());
        answer.set("key", toJson(record.key(), (short) 0));
        answer.set("version", NullNode.instance);
        answer.set("value", NullNode.instance);
        if (record.value() != null) {
            answer.put("version", record.value().version());
            answer.set("value", toJson(record.value().message(), record.value().version()));
        }
        return answer;
    }

    /** `encode_coordinator`: {set, api_key, key, version, value} to {key, value}; no value: a tombstone. */
    static JsonNode encodeCoordinator(JsonNode arguments) throws Exception {
        CoordinatorRecordSerde serde = coordinator(arguments);
        String set = Json.text(arguments, "set");
        int apiKey = Json.required(arguments, "api_key").intValue();
        ApiMessage key = (ApiMessage) fromJson(
            find(set, "key", apiKey), Json.required(arguments, "key"), (short) 0);
        CoordinatorRecord record = CoordinatorRecord.tombstone(key);
        if (Json.has(arguments, "value")) {
            short version = Json.required(arguments, "version").shortValue();
            Message value = fromJson(find(set, "value", apiKey), arguments.get("value"), version);
            record = CoordinatorRecord.record(key, new ApiMessageAndVersion((ApiMessage) value, version));
        }
        ObjectNode answer = Json.object();
        answer.set("key", Json.base64(serde.serializeKey(record)));
        answer.set("value", Json.base64(serde.serializeValue(record)));
        return answer;
    }

    private static Type find(String set, String part, int apiKey) {
        return types().stream()
            .filter(type -> type.set().equals(set) && type.part().equals(part) && type.apiKey() == apiKey)
            .findFirst()
            .orElseThrow(() -> new IllegalArgumentException("no " + set + " " + part + " " + apiKey));
    }

    /** `decode_metadata` (of the KRaft log) and `decode_remote`: {bytes} to {api_key, name, version, data}. */
    static JsonNode decodeMetadata(JsonNode arguments) throws Exception {
        ByteBuffer buffer = Json.buffer(arguments, "bytes");
        return describe(new MetadataRecordSerde().read(new ByteBufferAccessor(buffer), buffer.remaining()));
    }

    static JsonNode decodeRemote(JsonNode arguments) throws Exception {
        byte[] bytes = Json.bytes(arguments, "bytes");
        ObjectNode answer = describe(REMOTE.deserialize(bytes));
        if (Json.flag(arguments, "text", false)) // what DumpLogSegments prints
            answer.put("text", new RemoteLogMetadataSerde().deserialize(bytes).toString());
        return answer;
    }

    private static ObjectNode describe(ApiMessageAndVersion found) {
        ObjectNode answer = Json.object()
            .put("api_key", found.message().apiKey())
            .put("name", found.message().getClass().getSimpleName())
            .put("version", found.version());
        answer.set("data", toJson(found.message(), found.version()));
        return answer;
    }

    /** `encode_metadata` and `encode_remote`: {api_key, version, data} to {bytes}. */
    static JsonNode encodeRecord(String set, JsonNode arguments) {
        Type type = find(set, "record", Json.required(arguments, "api_key").intValue());
        short version = Json.required(arguments, "version").shortValue();
        Message message = fromJson(type, Json.required(arguments, "data"), version);
        ObjectNode answer = Json.object();
        answer.set("bytes", Json.base64(stored(type, message, version)));
        return answer;
    }
}
