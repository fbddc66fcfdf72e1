package oracle;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.BinaryNode;
import com.fasterxml.jackson.databind.node.BooleanNode;
import com.fasterxml.jackson.databind.node.DoubleNode;
import com.fasterxml.jackson.databind.node.IntNode;
import com.fasterxml.jackson.databind.node.LongNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.TextNode;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.types.RawTaggedField;

/**
 * `random_messages`: seeded instances of every message and version, drawn along Kafka's own schema files.
 *
 * <p>A field is filled when its version has it; nullable ones are null now and then, tagged ones left out now
 * and then, integers often at the ends of their range, texts and arrays often empty or long enough for a
 * two-byte length.
 */
final class RandomMessages {
    private static final ObjectMapper SCHEMAS =
        new ObjectMapper().configure(JsonParser.Feature.ALLOW_COMMENTS, true);
    private static final int UNKNOWN_TAG = 9001;

    private final Random random;
    private final short version;
    private final Map<String, JsonNode> structs = new HashMap<>();

    private RandomMessages(Random random, short version) {
        this.random = random;
        this.version = version;
    }

    /** {seed, count, set, name, unknown_tags}: a list of {set, part, api_key, name, version, data, bytes, bare}. */
    static JsonNode answer(JsonNode arguments) throws Exception {
        long seed = Json.number(arguments, "seed", 0);
        int count = Json.integer(arguments, "count", 1);
        String set = Json.text(arguments, "set", null);
        String name = Json.text(arguments, "name", null);
        boolean unknownTags = Json.flag(arguments, "unknown_tags", false);
        ArrayNode list = Json.array();
        for (Messages.Type type : name == null ? Messages.types() : List.of(Messages.type(name))) {
            if (set != null && !set.equals(type.set()))
                continue;
            Message prototype = type.prototype();
            for (short v = prototype.lowestSupportedVersion(); v <= prototype.highestSupportedVersion(); v++) {
                Random random = new Random(seed * 31 + type.name().hashCode() * 7L + v);
                for (int i = 0; i < count; i++)
                    list.add(one(type, v, random, unknownTags));
            }
        }
        return list;
    }

    private static ObjectNode one(Messages.Type type, short version, Random random, boolean unknownTags) {
        JsonNode schema = schema(type);
        JsonNode drawn = new RandomMessages(random, version).message(schema);
        Message message = Messages.fromJson(type, drawn, version);
        if (unknownTags && covers(schema.path("flexibleVersions").asText("none"), version))
            message.unknownTaggedFields().add(new RawTaggedField(UNKNOWN_TAG, new byte[] {1, 2, 3}));
        ObjectNode node = Json.object()
            .put("set", type.set())
            .put("part", type.part())
            .put("api_key", type.apiKey())
            .put("name", type.name())
            .put("version", version);
        node.set("data", Messages.toJson(message, version));
        node.set("bytes", Json.base64(Messages.stored(type, message, version)));
        node.set("bare", Json.base64(Messages.bare(message, version)));
        return node;
    }

    static JsonNode unknownTaggedFields(Message message) {
        ArrayNode list = Json.array();
        for (RawTaggedField field : message.unknownTaggedFields())
            list.addArray().add(field.tag()).add(Json.base64(field.data()));
        return list;
    }

    /** `message_schema`: {name} to Kafka's schema file of that message, comments dropped. */
    static JsonNode schema(JsonNode arguments) throws Exception {
        return schema(Messages.type(Json.text(arguments, "name")));
    }

    private static JsonNode schema(Messages.Type type) {
        // The one schema file that is not called as the message in it.
        String name = type.name().equals("ZkMigrationStateRecord") ? "ZkMigrationRecord" : type.name();
        name = name.replaceAll("Data$", type.set().equals("protocol") ? "" : "Data");
        for (String folder : new String[] {"common/message/", "common/metadata/", "message/"}) {
            String resource = folder + name + ".json";
            try (InputStream stream = RandomMessages.class.getClassLoader().getResourceAsStream(resource)) {
                if (stream != null)
                    return SCHEMAS.readTree(stream);
            } catch (IOException problem) {
                throw new UncheckedIOException(problem);
            }
        }
        throw new IllegalArgumentException("no schema file for " + type.name());
    }

    private ObjectNode message(JsonNode schema) {
        for (JsonNode struct : schema.path("commonStructs"))
            structs.put(struct.get("name").asText(), struct.get("fields"));
        return struct(schema.get("fields"));
    }

    private ObjectNode struct(JsonNode fields) {
        ObjectNode node = Json.object();
        for (JsonNode field : fields) {
            String taggedVersions = field.path("taggedVersions").asText("none");
            if (!covers(field.path("versions").asText(taggedVersions), version))
                continue;
            boolean tagged = covers(taggedVersions, version);
            if (tagged && random.nextInt(3) == 0)
                continue;
            String name = field.get("name").asText();
            node.set(Character.toLowerCase(name.charAt(0)) + name.substring(1), field(field));
        }
        return node;
    }

    private JsonNode field(JsonNode field) {
        if (covers(field.path("nullableVersions").asText("none"), version) && random.nextInt(4) == 0)
            return NullNode.instance;
        String type = field.get("type").asText();
        if (!type.startsWith("[]"))
            return value(type, field);
        ArrayNode array = Json.array();
        boolean wide = random.nextInt(12) == 0 && !isStruct(type.substring(2));
        for (int i = wide ? 130 : random.nextInt(4); i > 0; i--)
            array.add(value(type.substring(2), field));
        return array;
    }

    private static boolean isStruct(String type) {
        return Character.isUpperCase(type.charAt(0));
    }

    private JsonNode value(String type, JsonNode field) {
        switch (type) {
            case "bool": return BooleanNode.valueOf(random.nextBoolean());
            case "int8": return IntNode.valueOf((int) integer(Byte.MIN_VALUE, Byte.MAX_VALUE));
            case "int16": return IntNode.valueOf((int) integer(Short.MIN_VALUE, Short.MAX_VALUE));
            case "uint16": return IntNode.valueOf((int) integer(0, 0xffff));
            case "int32": return IntNode.valueOf((int) integer(Integer.MIN_VALUE, Integer.MAX_VALUE));
            case "uint32": return LongNode.valueOf(integer(0, 0xffffffffL));
            case "int64": return LongNode.valueOf(integer(Long.MIN_VALUE, Long.MAX_VALUE));
            case "float64": return DoubleNode.valueOf(random.nextGaussian() * 1e6);
            case "uuid": return TextNode.valueOf(new Uuid(random.nextLong(), random.nextLong()).toString());
            case "string": return TextNode.valueOf(text());
            case "bytes":
            case "records": return BinaryNode.valueOf(bytes());
            default:
                JsonNode fields = field.has("fields") ? field.get("fields") : structs.get(type);
                return struct(fields);
        }
    }

    private long integer(long lowest, long highest) {
        switch (random.nextInt(6)) {
            case 0: return lowest;
            case 1: return highest;
            case 2: return lowest < 0 ? -1 : 0;
            case 3: return random.nextInt(100);
            default: return lowest + Long.remainderUnsigned(random.nextLong(), (highest - lowest) | 1);
        }
    }

    private String text() {
        switch (random.nextInt(6)) {
            case 0: return "";
            case 1: return "grüße-日本-🦊-" + random.nextInt(1000);
            case 2: return "x".repeat(127 + random.nextInt(200));
            default: return "name." + random.nextInt(100_000);
        }
    }

    private byte[] bytes() {
        byte[] bytes = new byte[random.nextInt(4) == 0 ? 0 : random.nextInt(200)];
        random.nextBytes(bytes);
        return bytes;
    }

    /** Kafka's notation: none, 3, 1-4 or 2+. */
    private static boolean covers(String versions, short version) {
        if (versions.equals("none"))
            return false;
        if (versions.endsWith("+"))
            return version >= Short.parseShort(versions.substring(0, versions.length() - 1));
        int dash = versions.indexOf('-');
        if (dash < 0)
            return version == Short.parseShort(versions);
        return version >= Short.parseShort(versions.substring(0, dash))
            && version <= Short.parseShort(versions.substring(dash + 1));
    }
}
